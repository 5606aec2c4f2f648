(** * exp2_short4

    The largest error of the function exp2_short4, from its nodes. Written by tokitai prove exp2_short4 --emit; do not edit. *)

From Coq Require Import Reals ZArith Lia Lra.
From Flocq Require Import Core.
From Interval Require Import Tactic.
From Tokitai Require Import functions.Binary32.
Open Scope R_scope.

(* function exp2_short4(x): exp2 within 44.0 ulp + 2^-126 for x <= 127
  xc = max(x, -127)
  t = add(xc, 1.2583039e+07)
  t1 = sub(t, 1.2583039e+07)
  r = sub(xc, t1)
  t2 = fma(0x1.3a054p-07, r, 0x1.c9fc6cp-05)
  t3 = fma(t2, r, 0x1.ec036ep-03)
  t4 = fma(t3, r, 0x1.62e12cp-01)
  p = fma(t4, r, 1)
  t5 = bits(t)
  t6 = shl(t5, 23i)
  s = float(t6)
  t7 = mul(p, s)
  return t7
*)
Section Nodes.
Variable x : R.
Definition xc := Rmax x (-127).
Definition t := rnd (xc + 12583039).
Definition t1 := rnd (t - 12583039).
Definition r := rnd (xc - t1).
Definition t2 := rnd ((321557 / 33554432) * r + (7503643 / 134217728)).
Definition t3 := rnd (t2 * r + (16122295 / 67108864)).
Definition t4 := rnd (t3 * r + (5814347 / 8388608)).
Definition p := rnd (t4 * r + 1).
Definition t5 := bits t.
Definition t6 := shl t5 (23)%Z.
Definition s := float t6.
Definition t7 := rnd (p * s).
Definition exp2_short4_f32 := t7.
End Nodes.

(** The polynomial, without roundings. *)
Definition polynomial (r : R) := (((((321557 / 33554432) * r + (7503643 / 134217728)) * r + (16122295 / 67108864)) * r + (5814347 / 8388608)) * r + 1).

Lemma method_below : forall r, -/2 <= r <= 0 -> Rabs (polynomial r - exp (r * ln 2)) <= 0.00000251626.
Proof. intros r H. unfold polynomial. interval with (i_bisect r, i_taylor r, i_degree 8, i_prec 90, i_depth 25). Qed.

Lemma method_above : forall r, 0 <= r <= /2 -> Rabs (polynomial r - exp (r * ln 2)) <= 0.00000398699.
Proof. intros r H. unfold polynomial. interval with (i_bisect r, i_taylor r, i_degree 8, i_prec 90, i_depth 25). Qed.

Lemma method : forall r, Rabs r <= /2 -> Rabs (polynomial r * exp (- (r * ln 2)) - 1) <= 0.00000282122.
Proof. intros r H. unfold polynomial. interval with (i_bisect r, i_taylor r, i_degree 8, i_prec 90, i_depth 25). Qed.

(** The polynomial with its roundings. *)
Lemma rounded_below : forall x, -/2 <= r x <= 0 -> Rabs (p x - polynomial (r x)) <= 1.15 * / 16777216 * exp (r x * ln 2).
Proof.
intros x. unfold p, t4, t3, t2. generalize (r x). clear x. intros r H.
rounding (-4)%Z. rounding (-2)%Z. rounding (0)%Z. rounding (0)%Z.
match goal with |- Rabs (?A - _) <= _ => replace (A - polynomial r) with (((e * r + e0) * r + e1) * r + e2) by (unfold polynomial; ring) end.
apply Rminus_le. interval with (i_bisect r, i_prec 60, i_depth 20).
Qed.

Lemma rounded_above : forall x, 0 <= r x <= /2 -> Rabs (p x - polynomial (r x)) <= 1.15 * / 16777216 * exp (r x * ln 2).
Proof.
intros x. unfold p, t4, t3, t2. generalize (r x). clear x. intros r H.
rounding (-4)%Z. rounding (-1)%Z. rounding (0)%Z. rounding (1)%Z.
match goal with |- Rabs (?A - _) <= _ => replace (A - polynomial r) with (((e * r + e0) * r + e1) * r + e2) by (unfold polynomial; ring) end.
apply Rminus_le. interval with (i_bisect r, i_prec 60, i_depth 20).
Qed.

Lemma at_least : forall x, 0 <= r x <= /2 -> 1 <= p x.
Proof.
intros x. unfold p, t4, t3, t2. generalize (r x). clear x. intros r H.
apply round_ge_generic; auto with typeclass_instances. change 1 with (bpow radix2 0). apply generic_format_bpow; unfold FLT_exp; lia.
rounding (-4)%Z. rounding (-1)%Z. rounding (0)%Z.
bound.
Qed.

Lemma relative : forall x, Rabs (r x) <= /2 -> Rabs (p x - exp (r x * ln 2)) <= 0.0000029 * exp (r x * ln 2).
Proof.
intros x H.
assert (A : Rabs (p x - polynomial (r x)) <= 1.15 * / 16777216 * exp (r x * ln 2)).
{ apply Rabs_le_inv in H. destruct (Rle_lt_dec 0 (r x)); [apply rounded_above | apply rounded_below]; lra. }
assert (M := method _ H). revert A M. generalize (p x) (r x). intros p r A M.
assert (P := exp_pos (r * ln 2)).
replace (p - exp (r * ln 2)) with ((p - polynomial r) + exp (r * ln 2) * (polynomial r * exp (- (r * ln 2)) - 1))
  by (rewrite exp_Ropp; field; lra).
apply Rle_trans with (1 := Rabs_triang _ _). rewrite Rabs_mult, (Rabs_pos_eq (exp _)) by lra.
apply Rle_trans with (1.15 * / 16777216 * exp (r * ln 2) + exp (r * ln 2) * 0.00000282122).
- apply Rplus_le_compat. exact A. apply Rmult_le_compat_l; lra.
- nra.
Qed.

(** The polynomial against the power of two, in units of 2^(j-24), where j says in which binade that is. *)
Lemma near_power : forall x, Rabs (r x) <= / 2 ->
  exists j : Z, (0 <= j <= 1)%Z /\ (0 <= r x -> j = 1%Z) /\ bpow radix2 (j - 1) <= exp (r x * ln 2) < bpow radix2 j /\
  bpow radix2 (j - 1) <= p x /\ Rabs (p x - exp (r x * ln 2)) <= 43.4 * bpow radix2 (j - 24).
Proof.
intros x H. assert (H' := H). apply Rabs_le_inv in H'.
assert (L : 0 < ln 2) by (interval with (i_prec 60)).
assert (T : forall m u, Rabs (polynomial (r x) - exp (r x * ln 2)) <= m ->
  Rabs (p x - polynomial (r x)) <= u -> Rabs (p x - exp (r x * ln 2)) <= u + m).
{ intros m u M U. replace (p x - exp (r x * ln 2)) with ((p x - polynomial (r x)) + (polynomial (r x) - exp (r x * ln 2))) by ring.
  apply Rle_trans with (1 := Rabs_triang _ _). lra. }
destruct (Rlt_le_dec (r x) 0) as [N | N].
- exists 0%Z. change (0 - 1)%Z with (-1)%Z. change (0 - 24)%Z with (-24)%Z. powers.
  assert (E := T _ _ (method_below (r x) ltac:(lra)) (rounded_below x ltac:(lra))).
  assert (exp (r x * ln 2) < 1) by (rewrite <- exp_0; apply exp_increasing; nra).
  assert (7 / 10 <= exp (r x * ln 2)).
  { clear - H'. revert H'. generalize (r x). intros r H. interval with (i_prec 60). }
  split. lia. split. lra. split. lra. apply Rabs_le_inv in E. split. lra. apply Rabs_le. lra.
- exists 1%Z. change (1 - 1)%Z with 0%Z. change (1 - 24)%Z with (-23)%Z. powers.
  assert (E := T _ _ (method_above (r x) ltac:(lra)) (rounded_above x ltac:(lra))). assert (A := at_least x ltac:(lra)).
  assert (1 <= exp (r x * ln 2)) by (rewrite <- exp_0; apply exp_le; nra).
  assert (exp (r x * ln 2) < 3 / 2).
  { clear - H'. revert H'. generalize (r x). intros r H. interval with (i_prec 60). }
  split. lia. split. reflexivity. split. lra. split. lra. apply Rabs_le_inv in E. apply Rabs_le. lra.
Qed.

(** The reduction of the argument: x = k + r, and the product of p and 2^k. *)
Lemma reduction : forall x, F32 x -> x <= 127 ->
  exists k : Z, (-127 <= k <= 127)%Z /\ Rabs (r x) <= / 2 /\ (-127 <= x -> x = IZR k + r x) /\ (x < -127 -> k = (-127)%Z) /\
  t x = IZR (k + 12583039).
Proof.
intros x F H.
assert (FL : F32 (-127)) by (replace (-127) with (-127 * bpow radix2 0) by (simpl; ring); apply F32_dyadic; lia).
destruct (Rlt_le_dec x (-127)) as [N | N].
- assert (A : xc x = -127) by (unfold xc; apply Rmax_right; lra).
  destruct (reduce_integer (-127) 12583039 (-127) (-127) FL ltac:(lia) ltac:(lia) ltac:(lra) ltac:(lra)) as [k [Hk [Et [Er Hr]]]].
  exists k. unfold r, t1, t. rewrite A.
  split. lia. split. exact Hr. split. lra. split. intros _. lia. exact Et.
- assert (A : xc x = x) by (unfold xc; apply Rmax_left; lra).
  destruct (reduce_integer x 12583039 (-127) 127 F ltac:(lia) ltac:(lia) ltac:(lra) ltac:(lra)) as [k [Hk [Et [Er Hr]]]].
  exists k. unfold r, t1, t. rewrite A.
  split. exact Hk. split. exact Hr. split. intros _. rewrite Er. ring. split. lra. exact Et.
Qed.

Lemma product : forall x, F32 x -> -253 / 2 < x <= 127 -> exists k : Z, (-126 <= k <= 127)%Z /\ x = IZR k + r x /\ Rabs (r x) <= / 2 /\
  exp (x * ln 2) = exp (r x * ln 2) * bpow radix2 k /\ exp2_short4_f32 x = rnd (p x * bpow radix2 k).
Proof.
intros x F H. destruct (reduction x F ltac:(lra)) as [k [Hk [Hr [Ex [_ Et]]]]].
specialize (Ex ltac:(lra)). exists k.
assert (K : (-126 <= k)%Z).
{ assert (-127 < k)%Z; [|lia]. apply lt_IZR. apply Rabs_le_inv in Hr. lra. }
split. lia. split. exact Ex. split. exact Hr. split.
- rewrite bpow_exp, <- exp_plus. f_equal. change (IZR radix2) with 2. rewrite Ex at 1. ring.
- unfold exp2_short4_f32, t7, s, t6, t5. rewrite Et.
  rewrite (float_shl_bits (k + 12583039) (k + 127)); try lia.
  do 3 f_equal. lia.
  clear - Hk K. Z.to_euclidean_division_equations. lia.
Qed.

(** For every binary32 x up to 127, exp2_short4 is within 0.0000029 (2^-18.39) of the power of two, relatively, from -126 on; above -126.5 it is
    within 43.4 ulp, and below that it is 0.

    Speaks of: exp2_short4 0f402c9db08101ae810f12c9880215474c58cd19841ee55fd79a25c8fc1950b6

    Rests on it: fn.Exp2Short4Function. *)
Theorem exp2_short4_error : forall x, F32 x -> x <= 127 ->
  (-126 <= x -> Rabs (exp2_short4_f32 x - exp (x * ln 2)) <= 0.0000029 * exp (x * ln 2)) /\
  (-253 / 2 < x -> Rabs (exp2_short4_f32 x - exp (x * ln 2)) <= 43.4 * ulp32 (exp (x * ln 2))) /\
  (x < -253 / 2 -> exp2_short4_f32 x = 0).
Proof.
intros x F H.
assert (FP : F32 (p x)) by (apply generic_format_round; auto with typeclass_instances).
split; [|split].
- intros L. destruct (product x F ltac:(lra)) as [k [Hk [Ex [Hr [ET EY]]]]].
  destruct (near_power x Hr) as [j [Hj [Hj1 [HE [Hp _]]]]].
  assert (J : (-125 <= j + k)%Z).
  { destruct (Z.eq_dec k (-126)) as [-> | ]; [|lia]. rewrite Hj1 by lra. lia. }
  assert (P := bpow_gt_0 radix2 k).
  assert (Hpp : bpow radix2 (j - 1) <= Rabs (p x)) by (apply Rle_trans with (1 := Hp); apply Rle_abs).
  rewrite EY, ET, round_generic; auto with typeclass_instances.
  + replace (p x * bpow radix2 k - exp (r x * ln 2) * bpow radix2 k) with ((p x - exp (r x * ln 2)) * bpow radix2 k) by ring.
    rewrite Rabs_mult, (Rabs_pos_eq (bpow _ k)) by lra. rewrite <- Rmult_assoc.
    apply Rmult_le_compat_r. lra. exact (relative x Hr).
  + apply F32_scale with j; auto. lia.
- intros L. destruct (product x F ltac:(lra)) as [k [Hk [Ex [Hr [ET EY]]]]].
  destruct (near_power x Hr) as [j [Hj [_ [HE [Hp He]]]]].
  assert (P := bpow_gt_0 radix2 k).
  assert (Hpp : bpow radix2 (j - 1) <= Rabs (p x)) by (apply Rle_trans with (1 := Hp); apply Rle_abs).
  rewrite EY, ET. revert HE Hp He Hpp FP. generalize (p x) (exp (r x * ln 2)). intros p E HE Hp He Hpp FP.
  assert (HT : bpow radix2 (j + k - 1) <= E * bpow radix2 k < bpow radix2 (j + k)).
  { replace (j + k - 1)%Z with (j - 1 + k)%Z by ring. rewrite !bpow_plus.
    split. apply Rmult_le_compat_r; lra. apply Rmult_lt_compat_r; lra. }
  assert (D : Rabs (p * bpow radix2 k - E * bpow radix2 k) <= 43.4 * bpow radix2 (j + k - 24)).
  { replace (p * bpow radix2 k - E * bpow radix2 k) with ((p - E) * bpow radix2 k) by ring.
    rewrite Rabs_mult, (Rabs_pos_eq (bpow _ k)) by lra.
    replace (j + k - 24)%Z with (j - 24 + k)%Z by ring. rewrite bpow_plus, <- Rmult_assoc.
    apply Rmult_le_compat_r; lra. }
  rewrite (ulp32_power _ (j + k)) by exact HT.
  destruct (Z_le_gt_dec (-125) (j + k)) as [J | J].
  + rewrite round_generic; auto with typeclass_instances.
    * replace (Z.max (j + k - 24) (-149)) with (j + k - 24)%Z by lia. exact D.
    * apply F32_scale with j; auto. lia.
  + replace (j + k)%Z with (-126)%Z in * by lia.
    change (Z.max (-126 - 24) (-149)) with (-149)%Z. change (-126 - 24)%Z with (-150)%Z in D.
    assert (N : Rabs (rnd (p * bpow radix2 k) - p * bpow radix2 k) <= bpow radix2 (-125 - 25)).
    { apply rnd_error. lia. apply Rabs_le_inv in D. apply Rabs_le.
      assert (bpow radix2 (-126) = 16777216 * bpow radix2 (-150)) by (change (-126)%Z with (24 + -150)%Z; rewrite bpow_plus; reflexivity).
      assert (bpow radix2 (-125) = 33554432 * bpow radix2 (-150)) by (change (-125)%Z with (25 + -150)%Z; rewrite bpow_plus; reflexivity).
      assert (0 < bpow radix2 (-150)) by apply bpow_gt_0.
      assert (0 < E * bpow radix2 k) by (apply Rlt_le_trans with (2 := proj1 HT); apply bpow_gt_0). lra. }
    change (-125 - 25)%Z with (-150)%Z in N.
    assert (P2 : bpow radix2 (-149) = 2 * bpow radix2 (-150)) by (change (-149)%Z with (1 + -150)%Z; rewrite bpow_plus; reflexivity).
    assert (0 < bpow radix2 (-150)) by apply bpow_gt_0.
    replace (rnd (p * bpow radix2 k) - E * bpow radix2 k) with ((rnd (p * bpow radix2 k) - p * bpow radix2 k) + (p * bpow radix2 k - E * bpow radix2 k)) by ring.
    apply Rle_trans with (1 := Rabs_triang _ _). rewrite P2. lra.
- intros L. destruct (reduction x F H) as [k [Hk [Hr [Ex [Ek Et]]]]].
  assert (K : k = (-127)%Z).
  { destruct (Rlt_le_dec x (-127)) as [N | N]. exact (Ek N). specialize (Ex N).
    assert (k < -126)%Z; [|lia]. apply lt_IZR. apply Rabs_le_inv in Hr. lra. }
  unfold exp2_short4_f32, t7, s, t6, t5. rewrite Et, K, bits_integer by lia.
  match goal with |- rnd (_ * ?f) = 0 => replace f with 0 by (vm_compute; ring) end.
  rewrite Rmult_0_r. apply round_0; auto with typeclass_instances.
Qed.
