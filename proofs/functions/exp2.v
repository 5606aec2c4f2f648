(** * exp2

    The largest error of the function exp2 in ulps, from its nodes. Written by tokitai prove exp2 --emit; do not edit. *)

From Coq Require Import Reals ZArith Lia Lra.
From Flocq Require Import Core.
From Interval Require Import Tactic.
From Tokitai Require Import functions.Binary32.
Open Scope R_scope.

(* function exp2(x): exp2 within 0.9 ulp for every x
  t1 = less(x, -151)
  t2 = select(t1, -151, x)
  t3 = less(128, t2)
  xc = select(t3, 128, t2)
  isneg = less(x, 0)
  magic = select(isneg, 1.2583103e+07, 1.2582975e+07)
  t = add(xc, magic)
  t4 = sub(t, magic)
  r = sub(xc, t4)
  t5 = fma(0x1.416b5ep-13, r, 0x1.5f082ep-10)
  t6 = fma(t5, r, 0x1.3b2dep-07)
  t7 = fma(t6, r, 0x1.c6af7cp-05)
  t8 = fma(t7, r, 0x1.ebfbdcp-03)
  t9 = fma(t8, r, 0x1.62e43p-01)
  p = fma(t9, r, 1)
  t10 = bits(t)
  t11 = shl(t10, 23i)
  s = float(t11)
  t12 = mul(p, s)
  unbias = select(isneg, 0x1p-64, 0x1p+64)
  t13 = mul(t12, unbias)
  return t13
*)
Section Nodes.
Variable x : R.
Definition t1 := Rlt_bool x (-151).
Definition t2 := if t1 then (-151) else x.
Definition t3 := Rlt_bool 128 t2.
Definition xc := if t3 then 128 else t2.
Definition isneg := Rlt_bool x 0.
Definition magic := if isneg then 12583103 else 12582975.
Definition t := rnd (xc + magic).
Definition t4 := rnd (t - magic).
Definition r := rnd (xc - t4).
Definition t5 := rnd ((10532271 / 68719476736) * r + (11502615 / 8589934592)).
Definition t6 := rnd (t5 * r + (645487 / 67108864)).
Definition t7 := rnd (t6 * r + (7449567 / 134217728)).
Definition t8 := rnd (t7 * r + (8060663 / 33554432)).
Definition t9 := rnd (t8 * r + (1453635 / 2097152)).
Definition p := rnd (t9 * r + 1).
Definition t10 := bits t.
Definition t11 := shl t10 (23)%Z.
Definition s := float t11.
Definition t12 := rnd (p * s).
Definition unbias := if isneg then (1 / 18446744073709551616) else 18446744073709551616.
Definition t13 := rnd (t12 * unbias).
Definition exp2_f32 := t13.
End Nodes.

(** The polynomial, without roundings. *)
Definition polynomial (r : R) := (((((((10532271 / 68719476736) * r + (11502615 / 8589934592)) * r + (645487 / 67108864)) * r + (7449567 / 134217728)) * r + (8060663 / 33554432)) * r + (1453635 / 2097152)) * r + 1).

Lemma method : forall r, Rabs r <= 0.5 -> Rabs (polynomial r * 1 * exp (- (r * ln 2)) - 1) <= 0.00000000299176.
Proof. intros r H. unfold polynomial. interval with (i_bisect r, i_taylor r, i_degree 10, i_prec 90, i_depth 25). Qed.

(** The reduction of the argument: x = k + r. *)
Lemma reduction_negative : forall x, F32 (xc x) -> (-151) <= (xc x) <= 0 -> magic x = 12583103 ->
  exists k : Z, (-151 <= k <= 0)%Z /\ t x = IZR (k + 12583103) /\
  r x = (xc x) - IZR k /\ Rabs (r x) <= / 2.
Proof.
intros x. unfold r, t4, t. intros F H Hm. rewrite Hm.
apply (reduce_integer (xc x) 12583103 (-151) (0)); try lia; try exact F; lra.
Qed.

(** The reduction of the argument: x = k + r. *)
Lemma reduction_positive : forall x, F32 (xc x) -> 0 <= (xc x) <= 128 -> magic x = 12582975 ->
  exists k : Z, (0 <= k <= 128)%Z /\ t x = IZR (k + 12582975) /\
  r x = (xc x) - IZR k /\ Rabs (r x) <= / 2.
Proof.
intros x. unfold r, t4, t. intros F H Hm. rewrite Hm.
apply (reduce_integer (xc x) 12582975 (0) (128)); try lia; try exact F; lra.
Qed.

(** The polynomial with its roundings. *)
Lemma total_below : forall x, -0.5 <= r x <= 0 ->
  Rabs (p x - exp (r x * ln 2)) <= 0.83 * / 16777216.
Proof.
intros x. unfold p, t9, t8, t7, t6, t5. generalize (r x). clear x. intros r H.
match goal with |- Rabs (?p - _) <= _ => replace (p - exp (r * ln 2))
  with ((p - polynomial r) + exp (r * ln 2) * (polynomial r * 1 * exp (- (r * ln 2)) - 1)) end.
2: { rewrite exp_Ropp. field. generalize (exp_pos (r * ln 2)); lra. }
generalize (method r ltac:(apply Rabs_le; lra)). generalize (polynomial r * 1 * exp (- (r * ln 2)) - 1). intros m M.
rounding (-9)%Z. rounding (-6)%Z. rounding (-4)%Z. rounding (-2)%Z. rounding (0)%Z. rounding (0)%Z.
match goal with |- Rabs ((?A - _) + _) <= _ => replace (A - polynomial r) with (((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) by (unfold polynomial; ring) end.
interval with (i_bisect r, i_prec 60, i_depth 20).
Qed.

Lemma total_above : forall x, 0 <= r x <= 0.5 ->
  Rabs (p x - exp (r x * ln 2)) <= 0.83 * / 8388608.
Proof.
intros x. unfold p, t9, t8, t7, t6, t5. generalize (r x). clear x. intros r H.
match goal with |- Rabs (?p - _) <= _ => replace (p - exp (r * ln 2))
  with ((p - polynomial r) + exp (r * ln 2) * (polynomial r * 1 * exp (- (r * ln 2)) - 1)) end.
2: { rewrite exp_Ropp. field. generalize (exp_pos (r * ln 2)); lra. }
generalize (method r ltac:(apply Rabs_le; lra)). generalize (polynomial r * 1 * exp (- (r * ln 2)) - 1). intros m M.
rounding (-9)%Z. rounding (-6)%Z. rounding (-4)%Z. rounding (-1)%Z. rounding (0)%Z. rounding (1)%Z.
match goal with |- Rabs ((?A - _) + _) <= _ => replace (A - polynomial r) with (((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) by (unfold polynomial; ring) end.
interval with (i_bisect r, i_prec 60, i_depth 20).
Qed.

Lemma at_least : forall x, 0 <= r x <= 0.5 -> 1 <= p x.
Proof.
intros x. unfold p, t9, t8, t7, t6, t5. generalize (r x). clear x. intros r H.
apply round_ge_generic; auto with typeclass_instances. change 1 with (bpow radix2 0). apply generic_format_bpow; unfold FLT_exp; lia.
rounding (-9)%Z. rounding (-6)%Z. rounding (-4)%Z. rounding (-1)%Z. rounding (0)%Z.
bound.
Qed.

(** The polynomial against the power of two, in units of 2^(j-24), where j says in which binade that is. *)
Lemma near_exponential : forall x, Rabs (r x) <= / 2 ->
  exists j : Z, (0 <= j <= 1)%Z /\ bpow radix2 (j - 1) <= exp (r x * ln 2) < bpow radix2 j /\
  bpow radix2 (j - 1) <= p x * bpow radix2 0 /\
  Rabs (p x * bpow radix2 0 - exp (r x * ln 2)) <= 0.83 * bpow radix2 (j - 24).
Proof.
intros x H. apply Rabs_le_inv in H. change (bpow radix2 0) with 1. rewrite Rmult_1_r.
assert (L : 0 < ln 2) by (interval with (i_prec 60)).
destruct (Rlt_le_dec (r x) 0) as [N | N].
- exists 0%Z. change (0 - 1)%Z with (-1)%Z. change (0 - 24)%Z with (-24)%Z. powers.
  assert (E := total_below x ltac:(lra)).
  assert (exp (r x * ln 2) < 1) by (rewrite <- exp_0; apply exp_increasing; nra).
  assert (7 / 10 <= exp (r x * ln 2)).
  { clear - H. revert H. generalize (r x). intros r H. interval with (i_prec 60). }
  repeat split; try lia; try lra. apply Rabs_le_inv in E. lra.
- exists 1%Z. change (1 - 1)%Z with 0%Z. change (1 - 24)%Z with (-23)%Z. powers.
  assert (E := total_above x ltac:(lra)). assert (A := at_least x ltac:(lra)).
  assert (1 <= exp (r x * ln 2)) by (rewrite <- exp_0; apply exp_le; nra).
  assert (exp (r x * ln 2) < 2).
  { clear - H. revert H. generalize (r x). intros r H. interval with (i_prec 60). }
  repeat split; try lia; try lra.
Qed.

Lemma core_negative : forall x, F32 (xc x) -> (-151) <= (xc x) <= 0 -> magic x = 12583103 -> unbias x = (1 / 18446744073709551616) ->
  exists w, exp2_f32 x = rnd w /\ Rabs (w - exp ((xc x) * ln 2)) <= exp ((xc x) * ln 2) * / 1048576 /\
  (bpow radix2 (-126) <= exp ((xc x) * ln 2) -> Rabs (exp2_f32 x - exp ((xc x) * ln 2)) <= 0.83 * ulp32 (exp ((xc x) * ln 2))) /\
  (exp ((xc x) * ln 2) < bpow radix2 (-126) -> Rabs (exp2_f32 x - exp ((xc x) * ln 2)) <= 0.915 * ulp32 (exp ((xc x) * ln 2))).
Proof.
intros x F H Hm Hu. destruct (reduction_negative x F H Hm) as [k [Hk [Et [Er Hr]]]].
set (R := r x * ln 2) in *.
destruct (near_exponential x Hr) as [j [Hj [Ej [Hp He]]]].
fold R in Ej, He.
assert (EE : exp ((xc x) * ln 2) = exp R * bpow radix2 k).
{ rewrite bpow_exp, <- exp_plus. f_equal. change (IZR radix2) with 2. unfold R. rewrite Er. ring. }
assert (FP : F32 (p x)) by (apply generic_format_round; auto with typeclass_instances).
assert (ES : s x = bpow radix2 (k + 191 - 127)).
{ unfold s, t11, t10. rewrite Et. apply float_shl_bits; try lia.
  clear - Hk. Z.to_euclidean_division_equations. lia. }
assert (EY : exp2_f32 x = rnd (p x * bpow radix2 (k + 0))).
{ unfold exp2_f32, t13, t12. rewrite ES.
  rewrite (round_generic _ _ _ (p x * _)); auto with typeclass_instances.
  - rewrite Hu. replace (1 / 18446744073709551616) with (bpow radix2 (-64)) by (powers; lra).
    rewrite Rmult_assoc, <- bpow_plus. do 3 f_equal. lia.
  - apply F32_scale with (j - 0)%Z; [exact FP | | lia].
    apply scaled_at_least. exact Hp. }
exists (p x * bpow radix2 (k + 0)). split. exact EY. split.
- rewrite EE. apply scaled_near with j. exact (proj1 Ej). apply Rle_trans with (1 := He).
  apply Rmult_le_compat_r. apply bpow_ge_0. lra.
- rewrite EY, EE. replace 0.915 with (/ 2 + 0.83 / 2) by lra.
  apply (scaled_error _ _ 0.83 0 j k FP); [lra | exact Ej | exact Hp | exact He].
Qed.

Lemma core_positive : forall x, F32 (xc x) -> 0 <= (xc x) <= 128 -> magic x = 12582975 -> unbias x = 18446744073709551616 ->
  exists w, exp2_f32 x = rnd w /\ Rabs (w - exp ((xc x) * ln 2)) <= exp ((xc x) * ln 2) * / 1048576 /\
  (bpow radix2 (-126) <= exp ((xc x) * ln 2) -> Rabs (exp2_f32 x - exp ((xc x) * ln 2)) <= 0.83 * ulp32 (exp ((xc x) * ln 2))) /\
  (exp ((xc x) * ln 2) < bpow radix2 (-126) -> Rabs (exp2_f32 x - exp ((xc x) * ln 2)) <= 0.915 * ulp32 (exp ((xc x) * ln 2))).
Proof.
intros x F H Hm Hu. destruct (reduction_positive x F H Hm) as [k [Hk [Et [Er Hr]]]].
set (R := r x * ln 2) in *.
destruct (near_exponential x Hr) as [j [Hj [Ej [Hp He]]]].
fold R in Ej, He.
assert (EE : exp ((xc x) * ln 2) = exp R * bpow radix2 k).
{ rewrite bpow_exp, <- exp_plus. f_equal. change (IZR radix2) with 2. unfold R. rewrite Er. ring. }
assert (FP : F32 (p x)) by (apply generic_format_round; auto with typeclass_instances).
assert (ES : s x = bpow radix2 (k + 63 - 127)).
{ unfold s, t11, t10. rewrite Et. apply float_shl_bits; try lia.
  clear - Hk. Z.to_euclidean_division_equations. lia. }
assert (EY : exp2_f32 x = rnd (p x * bpow radix2 (k + 0))).
{ unfold exp2_f32, t13, t12. rewrite ES.
  rewrite (round_generic _ _ _ (p x * _)); auto with typeclass_instances.
  - rewrite Hu. replace 18446744073709551616 with (bpow radix2 (64)) by (powers; lra).
    rewrite Rmult_assoc, <- bpow_plus. do 3 f_equal. lia.
  - apply F32_scale with (j - 0)%Z; [exact FP | | lia].
    apply scaled_at_least. exact Hp. }
exists (p x * bpow radix2 (k + 0)). split. exact EY. split.
- rewrite EE. apply scaled_near with j. exact (proj1 Ej). apply Rle_trans with (1 := He).
  apply Rmult_le_compat_r. apply bpow_ge_0. lra.
- rewrite EY, EE. replace 0.915 with (/ 2 + 0.83 / 2) by lra.
  apply (scaled_error _ _ 0.83 0 j k FP); [lra | exact Ej | exact Hp | exact He].
Qed.


(** The core, for the argument between its bounds. *)
Lemma cores : forall x, F32 x -> x <= 128 ->
  exists w, exp2_f32 x = rnd w /\ Rabs (w - exp ((xc x) * ln 2)) <= exp ((xc x) * ln 2) * / 1048576 /\
  (bpow radix2 (-126) <= exp ((xc x) * ln 2) -> Rabs (exp2_f32 x - exp ((xc x) * ln 2)) <= 0.83 * ulp32 (exp ((xc x) * ln 2))) /\
  (exp ((xc x) * ln 2) < bpow radix2 (-126) -> Rabs (exp2_f32 x - exp ((xc x) * ln 2)) <= 0.915 * ulp32 (exp ((xc x) * ln 2))).
Proof.
intros x F H.
assert (FL : F32 (-151)) by (replace (-151) with ((-151) * bpow radix2 0) by (simpl; ring); apply F32_dyadic; lia).
assert (FH : F32 128) by (replace 128 with (128 * bpow radix2 0) by (simpl; ring); apply F32_dyadic; lia).
assert (A : F32 (xc x) /\ ((-151) <= x -> (xc x) = x) /\ (x < (-151) -> (xc x) = (-151))).
{ unfold xc, t3, t2, t1. repeat case Rlt_bool_spec; intros; repeat split; auto; lra. }
destruct A as [FA [A1 A2]].
destruct (Rlt_le_dec x 0) as [N | N].
- apply core_negative; auto.
  + destruct (Rlt_le_dec x (-151)); [rewrite A2 by assumption | rewrite A1 by assumption]; lra.
  + unfold magic, isneg. rewrite Rlt_bool_true by exact N. reflexivity.
  + unfold unbias, isneg. rewrite Rlt_bool_true by exact N. reflexivity.
- apply core_positive; auto.
  + rewrite A1 by lra. lra.
  + unfold magic, isneg. rewrite Rlt_bool_false by exact N. reflexivity.
  + unfold unbias, isneg. rewrite Rlt_bool_false by exact N. reflexivity.
Qed.

(** For every binary32 x up to 128, exp2 is within 0.83 ulp of the exponential, and within 0.915 ulp where that
    is below 2^-126; below (-151) the result is 0.

    Speaks of: exp2 9a6d3e00149b71296f43a487743b0f38bbbf81cf18521469da9a0c3d10f890c6

    Rests on it: fn.Exp2Function. *)
Theorem exp2_ulps : forall x, F32 x -> x <= 128 ->
  (bpow radix2 (-126) <= exp (x * ln 2) -> Rabs (exp2_f32 x - exp (x * ln 2)) <= 0.83 * ulp32 (exp (x * ln 2))) /\
  (exp (x * ln 2) < bpow radix2 (-126) -> Rabs (exp2_f32 x - exp (x * ln 2)) <= 0.915 * ulp32 (exp (x * ln 2))) /\
  (x < (-151) -> exp2_f32 x = 0).
Proof.
intros x F H. destruct (cores x F H) as [w [E [W C]]].
destruct (Rlt_le_dec x (-151)) as [N | N].
- assert (A : (xc x) = (-151)) by (unfold xc, t3, t2, t1; repeat case Rlt_bool_spec; intros; lra).
  rewrite A in W.
  assert (Z : exp2_f32 x = 0).
  { rewrite E. apply rnd_zero. assert (exp ((-151) * ln 2) <= 6.9e-46) by interval with (i_prec 60).
    apply Rabs_le_inv in W. assert (0 < exp ((-151) * ln 2)) by apply exp_pos.
    apply Rlt_le_trans with 7e-46. apply Rabs_lt. lra. powers. interval with (i_prec 60). }
  assert (S : exp (x * ln 2) < 7e-46).
  { apply Rlt_trans with (exp ((-151) * ln 2)). apply exp_increasing. apply Rmult_lt_compat_r; [interval with (i_prec 60) | exact N]. interval with (i_prec 60). }
  assert (P : 0 < exp (x * ln 2)) by apply exp_pos.
  assert (T : 7e-46 <= bpow radix2 (-150)) by (powers; interval with (i_prec 60)).
  assert (T2 : bpow radix2 (-150) <= bpow radix2 (-126)) by (apply bpow_le; lia).
  assert (U := ulp32_least (exp (x * ln 2))).
  assert (T3 : bpow radix2 (-149) = 2 * bpow radix2 (-150)) by (change (-149)%Z with (1 + -150)%Z; rewrite bpow_plus; reflexivity).
  rewrite Z. repeat split.
  + lra.
  + intros _. rewrite Rabs_minus_sym, Rminus_0_r, Rabs_pos_eq by lra. lra.
- assert (A : (xc x) = x) by (unfold xc, t3, t2, t1; repeat case Rlt_bool_spec; intros; lra).
  rewrite A in C. destruct C as [C1 C2]. repeat split; auto. intros. lra.
Qed.

