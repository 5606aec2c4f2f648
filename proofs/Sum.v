(** * Errors of sums

    Nothing here depends on a format. A rounded addition is any operation on a set of numbers with the properties
    below; Binary32.v shows that the additions of binary32 and of binary64 have them. An order of additions is a
    binary tree with the terms at its leaves.

    Speaks of: no definition alone: the sums of all definitions. *)

From Coq Require Import Reals List Lia Lra Psatz Permutation.
Import ListNotations.
Local Open Scope R_scope.

(** The relative error of n roundings one after the other. *)
Definition gamma (u : R) (n : nat) : R := INR n * u / (1 - INR n * u).

(** ** Orders *)

Inductive order := Leaf (x : R) | Node (l r : order).

(** The real sum, the sum of magnitudes, the number of terms, and the largest
    number of additions that a term passes through. *)
Fixpoint exact (t : order) : R :=
  match t with Leaf x => x | Node l r => exact l + exact r end.

Fixpoint magnitude (t : order) : R :=
  match t with Leaf x => Rabs x | Node l r => magnitude l + magnitude r end.

Fixpoint terms (t : order) : nat :=
  match t with Leaf _ => 1 | Node l r => terms l + terms r end.

Fixpoint height (t : order) : nat :=
  match t with Leaf _ => 0 | Node l r => S (Nat.max (height l) (height r)) end.

Fixpoint every (P : R -> Prop) (t : order) : Prop :=
  match t with Leaf x => P x | Node l r => every P l /\ every P r end.

(** A rounded addition on a set of numbers, with relative error u. The sum of two numbers is also no
    farther from their real sum than either of them, since they belong to the set. *)
Record rounded_addition (is_float : R -> Prop) (add : R -> R -> R) (u : R) : Prop := {
  u_nonneg : 0 <= u;
  u_le_1 : u <= 1;
  add_float : forall x y, is_float x -> is_float y -> is_float (add x y);
  add_error : forall x y, is_float x -> is_float y -> Rabs (add x y - (x + y)) <= u * Rabs (x + y);
  add_error_l : forall x y, is_float x -> is_float y -> Rabs (add x y - (x + y)) <= Rabs x;
  add_error_r : forall x y, is_float x -> is_float y -> Rabs (add x y - (x + y)) <= Rabs y }.

(** The sum as it is computed. *)
Fixpoint computed (add : R -> R -> R) (t : order) : R :=
  match t with Leaf x => x | Node l r => add (computed add l) (computed add r) end.

Lemma exact_le_magnitude t : Rabs (exact t) <= magnitude t.
Proof.
  induction t; simpl; [lra|].
  eapply Rle_trans; [apply Rabs_triang|lra].
Qed.

Lemma magnitude_nonneg t : 0 <= magnitude t.
Proof. eapply Rle_trans; [apply Rabs_pos|apply exact_le_magnitude]. Qed.

Lemma terms_pos t : 1 <= INR (terms t).
Proof.
  induction t; simpl terms; [simpl; lra|].
  rewrite plus_INR. lra.
Qed.

Section RoundedAddition.

Variables (is_float : R -> Prop) (add : R -> R -> R) (u : R).
Variable rounded : rounded_addition is_float add u.

Let u_nonneg := u_nonneg _ _ _ rounded.
Let u_le_1 := u_le_1 _ _ _ rounded.
Let add_float := add_float _ _ _ rounded.
Let add_error := add_error _ _ _ rounded.
Let add_error_l := add_error_l _ _ _ rounded.
Let add_error_r := add_error_r _ _ _ rounded.
Notation computed := (computed add).

Lemma computed_float t : every is_float t -> is_float (computed t).
Proof. induction t; simpl; intuition. Qed.

(** ** Jeannerod and Rump (2013) *)

Lemma any_order t : every is_float t ->
  Rabs (computed t - exact t) <= (INR (terms t) - 1) * u * magnitude t.
Proof.
  induction t as [x|l IHl r IHr]; simpl.
  - intros _. replace (x - x) with 0 by ring. rewrite Rabs_R0. lra.
  - intros [Hl Hr]. specialize (IHl Hl). specialize (IHr Hr).
    apply computed_float in Hl. apply computed_float in Hr.
    pose proof (add_error _ _ Hl Hr) as A.
    pose proof (add_error_l _ _ Hl Hr) as AL.
    pose proof (add_error_r _ _ Hl Hr) as AR.
    pose proof (exact_le_magnitude l) as ML. pose proof (exact_le_magnitude r) as MR.
    pose proof (magnitude_nonneg l) as PL. pose proof (magnitude_nonneg r) as PR.
    pose proof (terms_pos l) as NL. pose proof (terms_pos r) as NR.
    rewrite plus_INR.
    set (cl := computed l) in *. set (cr := computed r) in *.
    set (el := exact l) in *. set (er := exact r) in *.
    set (ml := magnitude l) in *. set (mr := magnitude r) in *.
    set (n := INR (terms l)) in *. set (m := INR (terms r)) in *.
    set (d := add cl cr - (cl + cr)) in *.
    assert (B : Rabs cl <= ml + (n - 1) * u * ml).
    { replace cl with (el + (cl - el)) by ring.
      eapply Rle_trans; [apply Rabs_triang|lra]. }
    assert (C : Rabs cr <= mr + (m - 1) * u * mr).
    { replace cr with (er + (cr - er)) by ring.
      eapply Rle_trans; [apply Rabs_triang|lra]. }
    assert (D : Rabs d <= m * u * ml + n * u * mr).
    { assert (0 <= u * ml) by nra. assert (0 <= u * mr) by nra.
      destruct (Rle_or_lt mr (u * ml)) as [S1|S1].
      { assert ((m - 1) * u * mr <= (m - 1) * u * ml).
        { apply Rmult_le_compat_l; [nra|]. nra. }
        nra. }
      destruct (Rle_or_lt ml (u * mr)) as [S2|S2].
      { assert ((n - 1) * u * ml <= (n - 1) * u * mr).
        { apply Rmult_le_compat_l; [nra|]. nra. }
        nra. }
      assert (Rabs (cl + cr) <= Rabs cl + Rabs cr) by apply Rabs_triang.
      assert ((n - 1) * (u * ml) <= (n - 1) * mr) by (apply Rmult_le_compat_l; lra).
      assert ((m - 1) * (u * mr) <= (m - 1) * ml) by (apply Rmult_le_compat_l; lra).
      assert (u * Rabs (cl + cr) <= u * (n * mr + m * ml)).
      { apply Rmult_le_compat_l; [easy|]. lra. }
      lra. }
    replace (add cl cr - (el + er)) with (d + (cl - el) + (cr - er)) by (unfold d; ring).
    eapply Rle_trans; [apply Rabs_triang|].
    eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|].
    lra.
Qed.

(** ** Higham (2002, section 4.2): the height of the order *)

Lemma power_ge_1 n : 1 <= (1 + u) ^ n.
Proof. apply pow_R1_Rle. lra. Qed.

Lemma power_mono n m : (n <= m)%nat -> (1 + u) ^ n <= (1 + u) ^ m.
Proof. intros. apply Rle_pow; [lra|easy]. Qed.

Lemma sum_error_power t : every is_float t ->
  Rabs (computed t - exact t) <= ((1 + u) ^ height t - 1) * magnitude t.
Proof.
  induction t as [x|l IHl r IHr]; simpl every; simpl height.
  - intros _. simpl. replace (x - x) with 0 by ring. rewrite Rabs_R0.
    pose proof (Rabs_pos x). lra.
  - intros [Hl Hr]. specialize (IHl Hl). specialize (IHr Hr).
    apply computed_float in Hl. apply computed_float in Hr.
    pose proof (add_error _ _ Hl Hr) as A.
    pose proof (exact_le_magnitude l) as ML. pose proof (exact_le_magnitude r) as MR.
    pose proof (magnitude_nonneg l) as PL. pose proof (magnitude_nonneg r) as PR.
    pose proof (power_mono _ _ (Nat.le_max_l (height l) (height r))) as GL.
    pose proof (power_mono _ _ (Nat.le_max_r (height l) (height r))) as GR.
    simpl computed. simpl exact. simpl magnitude. rewrite <- tech_pow_Rmult.
    set (g := (1 + u) ^ Nat.max (height l) (height r)) in *.
    set (cl := computed l) in *. set (cr := computed r) in *.
    set (el := exact l) in *. set (er := exact r) in *.
    set (ml := magnitude l) in *. set (mr := magnitude r) in *.
    assert (EL : Rabs (cl - el) <= (g - 1) * ml)
      by (eapply Rle_trans; [apply IHl|apply Rmult_le_compat_r; lra]).
    assert (ER : Rabs (cr - er) <= (g - 1) * mr)
      by (eapply Rle_trans; [apply IHr|apply Rmult_le_compat_r; lra]).
    assert (S : Rabs (cl + cr) <= g * ml + g * mr).
    { replace (cl + cr) with (el + er + ((cl - el) + (cr - er))) by ring.
      eapply Rle_trans; [apply Rabs_triang|].
      pose proof (Rabs_triang el er). pose proof (Rabs_triang (cl - el) (cr - er)). lra. }
    replace (add cl cr - (el + er)) with
      ((add cl cr - (cl + cr)) + (cl - el) + (cr - er)) by ring.
    eapply Rle_trans; [apply Rabs_triang|].
    eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|].
    assert (u * Rabs (cl + cr) <= u * (g * ml + g * mr)) by (apply Rmult_le_compat_l; lra).
    lra.
Qed.

Lemma power_le_inverse n : INR n * u < 1 -> (1 + u) ^ n <= / (1 - INR n * u).
Proof.
  intros H.
  assert (G : (1 + u) ^ n * (1 - INR n * u) <= 1).
  { clear H. induction n as [|n IH]; [simpl; lra|].
    rewrite S_INR, <- tech_pow_Rmult.
    pose proof (power_ge_1 n). pose proof (pos_INR n).
    assert (0 <= (1 + u) ^ n * (u * u * (INR n + 1))) by (apply Rmult_le_pos; nra).
    nra. }
  apply Rmult_le_reg_r with (1 - INR n * u); [lra|].
  rewrite Rinv_l by lra. exact G.
Qed.

(** Higham's lemma 3.1. *)
Lemma power_le_gamma n : INR n * u < 1 -> (1 + u) ^ n - 1 <= gamma u n.
Proof.
  intros H. pose proof (power_le_inverse n H). unfold gamma.
  replace (INR n * u / (1 - INR n * u)) with (/ (1 - INR n * u) - 1) by (field; lra).
  lra.
Qed.

End RoundedAddition.

(** ** What the rest builds on *)

(** The first addition to zero is exact, so a sum that starts at +0 may as well start from its first term.

    Rests on it: num.LaneSum; bound.RowHeight. *)
Theorem add_zero is_float add u x :
  rounded_addition is_float add u -> is_float 0 -> is_float x ->
  add 0 x = x.
Proof.
  intros A H0 Hx. generalize (add_error_l _ _ _ A 0 x H0 Hx).
  rewrite Rabs_R0, Rplus_0_l. intros H.
  apply Rminus_diag_uniq. destruct (Req_dec (add 0 x - x) 0) as [E|E]; [easy|].
  apply Rabs_pos_lt in E. lra.
Qed.

(** A sum of n terms, in whatever order, is off by at most (n-1)u times the sum of their magnitudes. There is no
    condition on n.

    Rests on it: truth.shape.factorAt; truth.bounded; num/exact.Float64. *)
Theorem sum_error_in_any_order is_float add u t :
  rounded_addition is_float add u -> every is_float t ->
  Rabs (computed add t - exact t) <= (INR (terms t) - 1) * u * magnitude t.
Proof. intros A. now apply any_order. Qed.

(** A sum in which no term passes through more than h additions is off by at most gamma(h) times the sum of the
    magnitudes of its terms (Higham 2002, section 4.2).

    Rests on it: bound.Gamma; truth.gamma; truth.shape.factorAt; truth.scatterError. *)
Theorem sum_error_by_height is_float add u t h :
  rounded_addition is_float add u -> every is_float t ->
  (height t <= h)%nat -> INR h * u < 1 ->
  Rabs (computed add t - exact t) <= gamma u h * magnitude t.
Proof.
  intros A F Hh H. eapply Rle_trans; [apply (sum_error_power _ _ _ A _ F)|].
  apply Rmult_le_compat_r; [apply magnitude_nonneg|].
  pose proof (power_mono _ _ _ A _ _ Hh). pose proof (power_le_gamma _ _ _ A _ H). lra.
Qed.

(** A sum of results: the terms of [t] approximate numbers whose sum is [wanted]; together they are off by at most
    [e], and their magnitudes add up to at most [a + e]. This is how the sums of panels, and of rows of a tensor,
    are added.

    Rests on it: truth.panelsError. *)
Theorem sum_of_results_error is_float add u t wanted a e h :
  rounded_addition is_float add u -> every is_float t ->
  (height t <= h)%nat -> INR h * u < 1 ->
  Rabs (exact t - wanted) <= e -> magnitude t <= a + e ->
  Rabs (computed add t - wanted) <= e + gamma u h * (a + e).
Proof.
  intros A F Hh H E M.
  replace (computed add t - wanted) with ((computed add t - exact t) + (exact t - wanted)) by ring.
  eapply Rle_trans; [apply Rabs_triang|].
  pose proof (sum_error_power _ _ _ A t F) as P. pose proof (power_mono _ _ _ A _ _ Hh).
  pose proof (power_le_gamma _ _ _ A h H). pose proof (magnitude_nonneg t).
  pose proof (power_ge_1 _ _ _ A (height t)).
  assert (((1 + u) ^ height t - 1) * magnitude t <= gamma u h * (a + e)).
  { apply Rmult_le_compat; lra. }
  lra.
Qed.
