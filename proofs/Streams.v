(** * Streams

    The rule weigh takes the keys of a query in blocks, and the blocks in segments. Each segment has a
    state of its own; a block without visible keys changes nothing, a segment without visible keys
    and base is left out, and the states of the others are joined ascending, the first of them as it
    is. Any worker may compute any segment, and workers run at the same time. What a block does to a
    state, and how two states are joined, are any functions: those of the fma chain, and those of a
    tensor core.

    Speaks of: attention.forward 15c3c35557a810b47cbe18c84abd1bb38c43081d66326a70822cdc1eb424efe8, attention.decode
    e66df12155ab607a62a2c2d6928a08eeb62aca428698fbb50b77d1a268ca9cec *)

From Coq Require Import List Arith Bool Lia.
From Tokitai Require Import Chain Panels.
Import ListNotations.

Section Streams.
  Variables (State Block : Type) (take : State -> Block -> State) (join : State -> State -> State)
    (start : nat -> State) (has_base : nat -> bool) (sees : Block -> bool).

  (** What a block does to a state. *)
  Definition step (s : State) (b : Block) : State := if sees b then take s b else s.

  Definition state_of (segment : nat) (blocks : list Block) : State := fold_left step blocks (start segment).

  (** The segments that are not left out, ascending. *)
  Definition counted (segments : list (list Block)) : list nat :=
    filter (fun i => has_base i || existsb sees (nth i segments [])) (seq 0 (length segments)).

  (** None is the state of a query that sees no key. *)
  Definition joined (states : list State) : option State :=
    match states with
    | [] => None
    | first :: others => Some (fold_left join others first)
    end.

  Definition stream_model (segments : list (list Block)) : option State :=
    joined (map (fun i => state_of i (nth i segments [])) (counted segments)).

  (** The states after a trace: what happens to segments, with the worker who does it. *)
  Definition states_after (trace : list (nat * work Block)) : nat -> State :=
    fold_left (do State Block step) (map snd trace) start.

  Lemma blocks_that_see : forall blocks s, fold_left step blocks s = fold_left take (filter sees blocks) s.
  Proof.
    induction blocks as [|b blocks IH]; intros s; [reflexivity|].
    simpl. rewrite IH. unfold step. now destruct (sees b).
  Qed.

  (** Give each segment to a worker, its owner. Each worker goes through its segments in any order, a
      segment's blocks ascending, in one piece or several; it may leave out any block without visible keys, or take it.
      What different workers do happens in any order. The states, joined ascending, are those of the model.

      Rests on it: def.StreamSegment; reference.stream.query; lower/cpu.streamJob.tile, which
      leaves out blocks that no query of a tile sees. *)
  Theorem segments_over_workers : forall (segments : list (list Block)) (owner : nat -> nat)
      (trace : list (nat * work Block)),
    (forall worker w, In w (done_by Block worker trace) -> owner (panel Block w) = worker) ->
    (forall p, p < length segments ->
      filter sees (concat (map (terms Block) (of_panel Block p (done_by Block (owner p) trace))))
      = filter sees (nth p segments [])) ->
    joined (map (states_after trace) (counted segments)) = stream_model segments.
  Proof.
    intros segments owner trace own complete. unfold stream_model. f_equal.
    apply map_ext_in. intros p H. unfold counted in H. apply filter_In in H.
    destruct H as [H _]. apply in_seq in H.
    unfold states_after, state_of. rewrite sums_of_panel.
    rewrite (of_owner _ owner p trace own). unfold Chain.chain.
    rewrite !blocks_that_see, complete by lia. reflexivity.
  Qed.

  (** A running total: joining some segments, and later the others to their total, is joining all.

      Rests on it: reference.stream.join; lower/cpu.streamJob.join. *)
  Theorem joined_in_pieces : forall before after : list State,
    joined (before ++ after) =
    match joined before with
    | None => joined after
    | Some total => Some (fold_left join after total)
    end.
  Proof.
    intros [|first before] after; [reflexivity|]. simpl. now rewrite fold_left_app.
  Qed.
End Streams.
