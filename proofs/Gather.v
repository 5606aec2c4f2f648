(** * Gathers and scatters

    A scatter goes through the queries and writes, or adds, each to the row that its index says. A
    gather goes through the rows and reads what belongs to each. They give the same result: rows can
    then be computed apart from each other, without atomic additions. *)

From Coq Require Import List Arith Lia Permutation.
Import ListNotations.

Section Scatter.
  Variables (A : Type) (index : nat -> nat) (x : nat -> A).

  (** Query q writes x[q] to row index[q]. *)
  Definition scatter_step (rows : nat -> A) (q : nat) : nat -> A :=
    fun v => if v =? index q then x q else rows v.

  Definition scatter (rows : nat -> A) (queries : list nat) : nat -> A :=
    fold_left scatter_step queries rows.

  Lemma scatter_other : forall queries rows v,
    (forall q, In q queries -> index q <> v) -> scatter rows queries v = rows v.
  Proof.
    induction queries as [|q queries IH]; intros rows v other; [reflexivity|].
    unfold scatter in *. simpl. rewrite IH by (intros r H; apply other; now right).
    unfold scatter_step. destruct (Nat.eqb_spec v (index q)) as [E|]; [|reflexivity].
    exfalso. apply (other q); [now left | now symmetry].
  Qed.

  (** Where the indices are a permutation, gathering by its inverse is the same as scattering, in
      whatever order the queries come.

      Speaks of: embedding.backward a4f29218009f7fb4779be5cfc666dbca23e17a038f9a248516d4147bba8e3cb7, embedding.backward.accumulate
      b2c83d629442b7ab79004b2ebb58f900cd00eeccd155d9074c102e07fef1a539

      Rests on it: lower/cpu/table.scatterJob.place, which writes queries by place and reads them by
      row. *)
  Theorem gather_inverse : forall (n : nat) (inverse : nat -> nat) (queries : list nat) (rows : nat -> A),
    Permutation queries (seq 0 n) ->
    (forall q, q < n -> inverse (index q) = q) ->
    (forall v, v < n -> inverse v < n /\ index (inverse v) = v) ->
    forall v, v < n -> scatter rows queries v = x (inverse v).
  Proof.
    intros n inverse queries rows all left right v lt.
    destruct (right v lt) as [less at_v].
    assert (H : In (inverse v) queries) by (apply (Permutation_in _ (Permutation_sym all)), in_seq; lia).
    destruct (in_split _ _ H) as (before & after & ->).
    unfold scatter. rewrite fold_left_app. simpl. fold (scatter rows before).
    change (scatter (scatter_step (scatter rows before) (inverse v)) after v = x (inverse v)).
    rewrite scatter_other.
    - unfold scatter_step. rewrite at_v. now rewrite Nat.eqb_refl.
    - intros q Hq E. assert (lq : q < n).
      { enough (In q (seq 0 n)) as I by (apply in_seq in I; lia).
        apply (Permutation_in _ all), in_or_app. right. now right. }
      assert (q = inverse v) by (rewrite <- E; symmetry; now apply left). subst q.
      assert (nodup : NoDup (before ++ inverse v :: after))
        by (apply (Permutation_NoDup (Permutation_sym all)), seq_NoDup).
      apply NoDup_remove_2 in nodup. apply nodup, in_or_app. now right.
  Qed.
End Scatter.

Section Sorted.
  Variable index : nat -> nat.

  (** The queries of a row, ascending. *)
  Definition queries_of (v n : nat) : list nat := filter (fun q => index q =? v) (seq 0 n).

  (** The queries sorted by row, and where each row's begin. *)
  Definition sorted (rows n : nat) : list nat := concat (map (fun v => queries_of v n) (seq 0 rows)).
  Definition first (v n : nat) : nat := length (sorted v n).

  Lemma sorted_succ : forall v n, sorted (S v) n = sorted v n ++ queries_of v n.
  Proof.
    intros v n. unfold sorted. rewrite seq_S, map_app, concat_app. simpl. now rewrite app_nil_r.
  Qed.

  Lemma sorted_prefix : forall v rows n, v < rows -> exists rest, sorted rows n = sorted v n ++ queries_of v n ++ rest.
  Proof.
    intros v rows n. induction rows as [|rows IH]; intros lt; [lia|]. rewrite sorted_succ.
    destruct (Nat.eq_dec v rows) as [->|ne]; [exists []; now rewrite app_nil_r|].
    destruct IH as [rest E]; [lia|]. exists (rest ++ queries_of rows n). rewrite E. now rewrite !app_assoc.
  Qed.

  (** Between two marks of the sorted queries lie the queries of one row, in ascending order. So any
      way to add up the rows' queries, chunks or exact sums or a chain, gives the same bits from the
      sorted queries as from a pass over all of them.

      Speaks of: embedding.backward a4f29218009f7fb4779be5cfc666dbca23e17a038f9a248516d4147bba8e3cb7, embedding.backward.accumulate
      b2c83d629442b7ab79004b2ebb58f900cd00eeccd155d9074c102e07fef1a539

      Rests on it: lower/cpu/table.scatterJob.sum; lower/cpu/table.scatterJob.sumHeavy;
      def.ScatterChunk. *)
  Theorem sorted_segment : forall (rows n v : nat), v < rows ->
    firstn (first (S v) n - first v n) (skipn (first v n) (sorted rows n)) = queries_of v n.
  Proof.
    intros rows n v lt. destruct (sorted_prefix v rows n lt) as [rest ->].
    unfold first. rewrite sorted_succ, app_length.
    rewrite skipn_app, skipn_all, Nat.sub_diag. simpl.
    replace (_ + _ - _) with (length (queries_of v n)) by lia.
    now rewrite firstn_app, Nat.sub_diag, firstn_all, app_nil_r.
  Qed.

  Lemma filter_split : forall (f : nat -> bool) q n, q < n -> f q = true ->
    exists rest, filter f (seq 0 n) = filter f (seq 0 q) ++ q :: rest.
  Proof.
    intros f q n lt yes. replace n with (q + (1 + (n - q - 1))) by lia.
    rewrite !seq_app. simpl. rewrite !filter_app. simpl. rewrite yes. simpl. eauto.
  Qed.

  Lemma queries_split : forall v from q, from <= q ->
    queries_of v q = queries_of v from ++ filter (fun r => index r =? v) (seq from (q - from)).
  Proof.
    intros v from q le. unfold queries_of.
    replace q with (from + (q - from)) at 1 by lia. now rewrite seq_app, filter_app.
  Qed.

  (** The place of a query among the sorted ones: where its row begins, plus the number of queries
      of that row in the parts before its own, plus the number of earlier ones in its part, which
      begins at [from]. So the parts can be counted and placed by different workers.

      Speaks of: embedding.backward a4f29218009f7fb4779be5cfc666dbca23e17a038f9a248516d4147bba8e3cb7, embedding.backward.accumulate
      b2c83d629442b7ab79004b2ebb58f900cd00eeccd155d9074c102e07fef1a539

      Rests on it: lower/cpu/table.scatterJob.count; lower/cpu/table.scatterJob.divide;
      lower/cpu/table.scatterJob.place. *)
  Theorem place_of_query : forall (rows n from q : nat), from <= q < n -> index q < rows ->
    nth_error (sorted rows n)
      (first (index q) n + length (queries_of (index q) from)
        + length (filter (fun r => index r =? index q) (seq from (q - from)))) = Some q.
  Proof.
    intros rows n from q [le lt] less. destruct (sorted_prefix _ rows n less) as [rest ->].
    rewrite <- Nat.add_assoc, <- app_length, <- (queries_split _ from q le).
    unfold first. rewrite nth_error_app2 by lia.
    replace (_ + _ - _) with (length (queries_of (index q) q)) by lia.
    destruct (filter_split (fun r => index r =? index q) q n lt (Nat.eqb_refl _)) as [more E].
    unfold queries_of. rewrite E, nth_error_app1 by (rewrite app_length; simpl; lia).
    now rewrite nth_error_app2, Nat.sub_diag.
  Qed.
End Sorted.
