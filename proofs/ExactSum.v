(** * Sums in binary64 with a bound of their error

    A sum of binary64 numbers in any order of additions, each rounded to nearest even, with
    subnormals and without an upper end of the range: num/exact.Float64 sees to it that nothing
    overflows. The bound has no term of second order (Jeannerod and Rump, 2013). *)

From Coq Require Import ZArith Reals Psatz.
From Flocq Require Import Core Relative.
From Tokitai Require Import Exact.
Open Scope R_scope.

Notation binary64 := (generic_format radix2 (FLT_exp (-1074) 53)).
Notation rounded := (round radix2 (FLT_exp (-1074) 53) ZnearestE).
Notation u := (bpow radix2 (-53)).

Local Instance precision_positive : Prec_gt_0 53 := eq_refl.

(** An order of additions: a tree whose leaves are the terms. *)
Inductive order := Term (x : R) | Sum (left right : order).

Fixpoint computed (t : order) : R :=
  match t with
  | Term x => x
  | Sum l r => rounded (computed l + computed r)
  end.

Fixpoint exact (t : order) : R :=
  match t with
  | Term x => x
  | Sum l r => exact l + exact r
  end.

Fixpoint magnitude (t : order) : R :=
  match t with
  | Term x => Rabs x
  | Sum l r => magnitude l + magnitude r
  end.

Fixpoint additions (t : order) : R :=
  match t with
  | Term _ => 0
  | Sum l r => additions l + additions r + 1
  end.

Fixpoint all_terms (P : R -> Prop) (t : order) : Prop :=
  match t with
  | Term x => P x
  | Sum l r => all_terms P l /\ all_terms P r
  end.

Lemma computed_format : forall t, all_terms binary64 t -> binary64 (computed t).
Proof.
  intros [x|l r] H; simpl; [exact H|]. apply generic_format_round; typeclasses eauto.
Qed.

Lemma on_grid : forall x, binary64 x -> exists m, x = F2R (Float radix2 m (-1074)).
Proof.
  intros x H. destruct (FLT_format_generic radix2 (-1074) 53 x H) as [[m e] E _ le]. simpl in le.
  exists (m * 2 ^ (e - -1074))%Z. rewrite E. unfold F2R; simpl Fnum; simpl Fexp.
  rewrite mult_IZR, (IZR_Zpower radix2) by lia. rewrite Rmult_assoc, <- bpow_plus. do 2 f_equal. lia.
Qed.

Lemma addition_relative : forall x y, binary64 x -> binary64 y ->
  Rabs (rounded (x + y) - (x + y)) <= u * Rabs (x + y).
Proof.
  intros x y Hx Hy. destruct (on_grid x Hx) as [m ->]. destruct (on_grid y Hy) as [n ->].
  replace (F2R (Float radix2 m (-1074)) + F2R (Float radix2 n (-1074)))
    with (F2R (Float radix2 (m + n) (-1074))) by (unfold F2R; simpl Fnum; rewrite plus_IZR; simpl Fexp; ring).
  refine (Rle_trans _ _ _ (relative_error_N_FLT_F2R_emin radix2 (-1074) 53 _ _ _) _); [lia|].
  apply Req_le. f_equal. change (-53)%Z with (-1 + (-52))%Z. rewrite bpow_plus. simpl. lra.
Qed.

Lemma addition_nearest : forall x y, binary64 y ->
  Rabs (rounded (x + y) - (x + y)) <= Rabs x.
Proof.
  intros x y Hy. destruct (round_N_pt radix2 (FLT_exp (-1074) 53) (fun x => negb (Z.even x)) (x + y)) as [_ near].
  refine (Rle_trans _ _ _ (near y Hy) _). apply Req_le. rewrite <- (Rabs_Ropp x). f_equal. ring.
Qed.

Lemma magnitude_exact : forall t, Rabs (exact t) <= magnitude t.
Proof.
  induction t as [x|l IHl r IHr]; simpl; [lra|].
  refine (Rle_trans _ _ _ (Rabs_triang _ _) _). lra.
Qed.

Lemma additions_pos : forall t, 0 <= additions t.
Proof. induction t; simpl; lra. Qed.

(** One addition of two sums, in numbers alone: what the rounding loses is at most n₂·u·A₁ + n₁·u·A₂,
    for n terms and magnitude A of each sum. *)
Lemma loss : forall v d s1 s2 c1 c2 A1 A2 n1 n2,
  0 <= v <= 1 -> 0 <= n1 -> 0 <= n2 ->
  Rabs s1 <= A1 -> Rabs s2 <= A2 ->
  Rabs (c1 - s1) <= n1 * v * A1 -> Rabs (c2 - s2) <= n2 * v * A2 ->
  Rabs d <= v * Rabs (c1 + c2) -> Rabs d <= Rabs c1 -> Rabs d <= Rabs c2 ->
  Rabs d <= (n2 + 1) * v * A1 + (n1 + 1) * v * A2.
Proof.
  intros v d s1 s2 c1 c2 A1 A2 n1 n2 [Hv0 Hv1] Hn1 Hn2 S1 S2 C1 C2 D D1 D2.
  assert (P1 : 0 <= A1) by (apply Rle_trans with (2 := S1), Rabs_pos).
  assert (P2 : 0 <= A2) by (apply Rle_trans with (2 := S2), Rabs_pos).
  assert (B1 : Rabs c1 <= A1 + n1 * v * A1).
  { replace c1 with (s1 + (c1 - s1)) by ring. refine (Rle_trans _ _ _ (Rabs_triang _ _) _). lra. }
  assert (B2 : Rabs c2 <= A2 + n2 * v * A2).
  { replace c2 with (s2 + (c2 - s2)) by ring. refine (Rle_trans _ _ _ (Rabs_triang _ _) _). lra. }
  assert (V1 : 0 <= n1 * v) by now apply Rmult_le_pos.
  assert (V2 : 0 <= n2 * v) by now apply Rmult_le_pos.
  destruct (Rle_or_lt A2 (v * A1)) as [small2|big2].
  - assert (n2 * v * A2 <= n2 * v * A1).
    { apply Rmult_le_compat_l; [exact V2|]. apply Rle_trans with (1 := small2). nra. }
    assert (0 <= (n1 + 1) * v * A2) by (apply Rmult_le_pos; nra). nra.
  - destruct (Rle_or_lt A1 (v * A2)) as [small1|big1].
    + assert (n1 * v * A1 <= n1 * v * A2).
      { apply Rmult_le_compat_l; [exact V1|]. apply Rle_trans with (1 := small1). nra. }
      assert (0 <= (n2 + 1) * v * A1) by (apply Rmult_le_pos; nra). nra.
    + assert (T : Rabs (c1 + c2) <= A1 + n1 * v * A1 + (A2 + n2 * v * A2)).
      { refine (Rle_trans _ _ _ (Rabs_triang _ _) _). lra. }
      assert (n1 * (v * A1) <= n1 * A2) by (apply Rmult_le_compat_l; lra).
      assert (n2 * (v * A2) <= n2 * A1) by (apply Rmult_le_compat_l; lra).
      apply Rle_trans with (1 := D).
      apply Rle_trans with (v * (A1 + n1 * A2 + (A2 + n2 * A1))); [|apply Req_le; ring].
      apply Rmult_le_compat_l; [exact Hv0|]. nra.
Qed.

(** A sum of n terms in any order is off by at most (n−1)·2^−53 times the sum of the terms'
    magnitudes, also among subnormals.

    Rests on it: num/exact.Float64, whose Err is this bound; num/exact.sums. *)
Theorem any_order_error : forall t : order,
  all_terms binary64 t ->
  Rabs (computed t - exact t) <= additions t * u * magnitude t.
Proof.
  induction t as [x|l IHl r IHr]; intros H; cbn [computed exact additions magnitude].
  - rewrite Rminus_diag_eq, Rabs_R0 by reflexivity. lra.
  - destruct H as [Hl Hr]. specialize (IHl Hl). specialize (IHr Hr).
    set (d := rounded (computed l + computed r) - (computed l + computed r)).
    assert (v : 0 <= u <= 1) by (split; [apply bpow_ge_0 | simpl; lra]).
    assert (D : Rabs d <= (additions r + 1) * u * magnitude l + (additions l + 1) * u * magnitude r).
    { apply loss with (exact l) (exact r) (computed l) (computed r);
        auto using additions_pos, magnitude_exact; unfold d.
      - apply addition_relative; now apply computed_format.
      - apply addition_nearest; now apply computed_format.
      - rewrite Rplus_comm. apply addition_nearest; now apply computed_format. }
    replace (rounded (computed l + computed r) - (exact l + exact r))
      with (d + ((computed l - exact l) + (computed r - exact r))) by (unfold d; ring).
    refine (Rle_trans _ _ _ (Rabs_triang _ _) _).
    refine (Rle_trans _ _ _ (Rplus_le_compat_l _ _ _ (Rabs_triang _ _)) _).
    lra.
Qed.

(** Every partial sum of integers, in units of 2^unit, is an integer in these units. *)
Definition is_integer (unit : Z) (x : R) : Prop := exists m, x = F2R (Float radix2 m unit).

Lemma rounded_integer : forall unit x, (-1074 <= unit)%Z -> is_integer unit x -> is_integer unit (rounded x).
Proof.
  intros unit x le [m E].
  set (e := cexp radix2 (FLT_exp (-1074) 53) x).
  destruct (Z.le_gt_cases unit e) as [big|small].
  - exists (ZnearestE (scaled_mantissa radix2 (FLT_exp (-1074) 53) x) * 2 ^ (e - unit))%Z.
    unfold round. fold e. unfold F2R; simpl Fnum; simpl Fexp.
    rewrite mult_IZR, (IZR_Zpower radix2) by lia. rewrite Rmult_assoc, <- bpow_plus. do 2 f_equal. lia.
  - exists m. rewrite <- E. apply round_generic; [typeclasses eauto|].
    rewrite E. apply generic_format_F2R. intros _. rewrite <- E. fold e. lia.
Qed.

Lemma plus_integer : forall unit x y, is_integer unit x -> is_integer unit y -> is_integer unit (x + y).
Proof.
  intros unit x y [m ->] [n ->]. exists (m + n)%Z. unfold F2R; simpl. rewrite plus_IZR. ring.
Qed.

Lemma computed_integer : forall unit t, (-1074 <= unit)%Z ->
  all_terms (is_integer unit) t -> is_integer unit (computed t).
Proof.
  intros unit t le. induction t as [x|l IHl r IHr]; intros H; simpl; [exact H|].
  destruct H as [Hl Hr]. apply rounded_integer; [exact le|]. apply plus_integer; auto.
Qed.

(** The exact dot product. The terms are integers in units of 2^unit, and [total] is their exact sum.
    They are added in binary64, in any order, and modulo 2^64, which gives [w]. If the bound of the
    binary64 sum's error is below 2^63 units, then that sum is an integer f in these units, and f
    and w determine the exact sum.

    Rests on it: num/exact.twoAdic; num/exact.Round. *)
Theorem exact_sum : forall (t : order) (unit total w : Z) (error : R),
  (-1074 <= unit)%Z ->
  all_terms binary64 t -> all_terms (is_integer unit) t ->
  exact t = IZR total * bpow radix2 unit ->
  additions t * u * magnitude t <= error ->
  error < bpow radix2 (unit + 63) ->
  (w mod 2 ^ 64 = total mod 2 ^ 64)%Z ->
  exists f : Z, computed t = IZR f * bpow radix2 unit /\
    (total = f + signed 64 (w - f))%Z.
Proof.
  intros t unit total w error le Hf Hi Ht Herr Hlt Hw.
  destruct (computed_integer unit t le Hi) as [f E]. unfold F2R in E; simpl in E.
  exists f. split; [exact E|]. apply two_places; [|exact Hw].
  apply lt_IZR. rewrite abs_IZR, minus_IZR.
  apply Rmult_lt_reg_r with (bpow radix2 unit); [apply bpow_gt_0|].
  change (IZR (2 ^ 63)) with (bpow radix2 63). rewrite <- bpow_plus, Z.add_comm.
  apply Rle_lt_trans with (2 := Hlt). apply Rle_trans with (2 := Herr).
  apply Rle_trans with (2 := any_order_error t Hf). apply Req_le.
  rewrite E, Ht, <- (Rabs_pos_eq (bpow radix2 unit)) at 1 by apply bpow_ge_0.
  rewrite <- Rabs_mult, <- Rabs_Ropp. f_equal. ring.
Qed.
