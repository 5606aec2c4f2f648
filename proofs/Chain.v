(** * Chains

    A chain adds terms one after another to an accumulator that is carried along: acc = fma(a, b,
    acc), k ascending. Nothing here knows what a number is. A step is any function of the
    accumulator and a term, so what is proved holds for every format, for every rounding, and for
    NaN and infinity. *)

From Coq Require Import List Arith.
Import ListNotations.

Section Chain.
  Variables (Acc Term : Type) (step : Acc -> Term -> Acc).

  Definition chain (acc : Acc) (terms : list Term) : Acc := fold_left step terms acc.

  (** A chain may be cut into pieces anywhere, and in any number of them, where the accumulator is
      carried from one piece to the next: a block of k leaves the bits alone.

      Rests on it: lower/cpu/matmul.plan, whose depth is that of a block of k;
      lower/cpu.contraction; reference.products. *)
  Theorem chain_cut : forall (pieces : list (list Term)) (acc : Acc),
    fold_left chain pieces acc = chain acc (concat pieces).
  Proof.
    induction pieces as [|piece pieces IH]; intros acc; simpl; [reflexivity|].
    rewrite IH. unfold chain. now rewrite fold_left_app.
  Qed.

  (** A result is computed in tasks. A task works on a tile, any set of elements, and adds to each
      of them the terms of one piece of k. [term i k] is the k-th term of element i: for a matrix
      product, the k-th element of its row of the left operand and of its column of the right one. *)
  Variables (Element : Type) (term : Element -> nat -> Term).

  Record task := { tile : Element -> bool; piece : list nat }.

  Definition run (sums : Element -> Acc) (t : task) : Element -> Acc :=
    fun i => if tile t i then chain (sums i) (map (term i) (piece t)) else sums i.

  Definition pieces_of (i : Element) (tasks : list task) : list (list nat) :=
    map piece (filter (fun t => tile t i) tasks).

  Lemma run_tasks : forall tasks sums i,
    fold_left run tasks sums i = chain (sums i) (map (term i) (concat (pieces_of i tasks))).
  Proof.
    unfold pieces_of.
    induction tasks as [|t tasks IH]; intros sums i; [reflexivity|].
    simpl. rewrite IH. unfold run. destruct (tile t i); simpl; [|reflexivity].
    unfold chain. now rewrite map_app, fold_left_app.
  Qed.

  (** Tiles of any shape, in any order, each with its own cuts of k: if the pieces that the tasks
      add to an element are, in the order of the tasks, 0 to K−1, then the element has the bits of
      the one chain over k. The other elements, and the tasks that do not touch this one, are
      arbitrary: every tiling of M and N, every cut of k, every division among workers.

      Rests on it: lower/cpu/matmul.plan; lower/cpu/matmul.blocking, none of whose sizes can change a
      result; lower/cpu.contraction; lower/cpu/mma.worker. *)
  Theorem chain_tiled : forall (K : nat) (tasks : list task) (sums : Element -> Acc) (i : Element),
    concat (pieces_of i tasks) = seq 0 K ->
    fold_left run tasks sums i = chain (sums i) (map (term i) (seq 0 K)).
  Proof.
    intros K tasks sums i cut. now rewrite run_tasks, cut.
  Qed.
End Chain.
