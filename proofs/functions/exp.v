(** * exp

    The largest error of the function exp in ulps, from its nodes. Written by tokitai prove exp --emit; do not edit. *)

From Coq Require Import Reals ZArith Lia Lra.
From Flocq Require Import Core.
From Interval Require Import Tactic.
From Tokitai Require Import functions.Binary32.
Open Scope R_scope.

(* function exp(x): exp within 0.9 ulp for every x
  t1 = less(x, -104)
  t2 = select(t1, -104, x)
  t3 = less(89, t2)
  xc = select(t3, 89, t2)
  isneg = less(x, 0)
  magic = select(isneg, 1.2583103e+07, 1.2582975e+07)
  t = fma(xc, 0x1.715476p+00, magic)
  n = sub(t, magic)
  t4 = fma(n, -0x1.62e43p-01, xc)
  r = fma(n, 0x1.05c61p-29, t4)
  t5 = fma(0x1.6a3d0ap-10, r, 0x1.123856p-07)
  t6 = fma(t5, r, 0x1.5558bep-05)
  t7 = fma(t6, r, 0x1.555494p-03)
  t8 = fma(t7, r, 0x1.fffffcp-02)
  t9 = fma(t8, r, 1)
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
Definition t1 := Rlt_bool x (-104).
Definition t2 := if t1 then (-104) else x.
Definition t3 := Rlt_bool 89 t2.
Definition xc := if t3 then 89 else t2.
Definition isneg := Rlt_bool x 0.
Definition magic := if isneg then 12583103 else 12582975.
Definition t := rnd (xc * (12102203 / 8388608) + magic).
Definition n := rnd (t - magic).
Definition t4 := rnd (n * (-1453635 / 2097152) + xc).
Definition r := rnd (n * (1072225 / 562949953421312) + t4).
Definition t5 := rnd ((11869829 / 8589934592) * r + (8985643 / 1073741824)).
Definition t6 := rnd (t5 * r + (11185247 / 268435456)).
Definition t7 := rnd (t6 * r + (5592357 / 33554432)).
Definition t8 := rnd (t7 * r + (8388607 / 16777216)).
Definition t9 := rnd (t8 * r + 1).
Definition p := rnd (t9 * r + 1).
Definition t10 := bits t.
Definition t11 := shl t10 (23)%Z.
Definition s := float t11.
Definition t12 := rnd (p * s).
Definition unbias := if isneg then (1 / 18446744073709551616) else 18446744073709551616.
Definition t13 := rnd (t12 * unbias).
Definition exp_f32 := t13.
End Nodes.

(** The two parts of ln 2. *)
Lemma two_parts : Rabs ((-1453635 / 2097152) + (1072225 / 562949953421312) + ln 2) <= 0.000000000000000088.
Proof. interval with (i_prec 120). Qed.

(** The polynomial, without roundings. *)
Definition polynomial (r : R) := (((((((11869829 / 8589934592) * r + (8985643 / 1073741824)) * r + (11185247 / 268435456)) * r + (5592357 / 33554432)) * r + (8388607 / 16777216)) * r + 1) * r + 1).

Lemma method : forall r, Rabs r <= 0.34658 -> Rabs (polynomial r * 1 * exp (- r) - 1) <= 0.0000000031396.
Proof. intros r H. unfold polynomial. interval with (i_bisect r, i_taylor r, i_degree 10, i_prec 90, i_depth 25). Qed.

(** The reduction of the argument: x = k*ln 2 + R, and r is near R. *)
Lemma reduction_negative : forall x, F32 (xc x) -> (-104) <= (xc x) <= 0 -> magic x = 12583103 ->
  exists k : Z, let R := (xc x) - IZR k * ln 2 in
  (-150 <= k <= 0)%Z /\ t x = IZR (k + 12583103) /\
  Rabs R <= 0.346576 /\ Rabs (r x - R) <= / 67108864 + / 35184372088832 /\
  (R < 0 -> r x <= / 35184372088832) /\ (0 <= R -> - / 35184372088832 <= r x).
Proof.
intros x. unfold r, t4, n, t. intros F H Hm. rewrite Hm. clear Hm. revert F H.
generalize (xc x). clear x. intros x. intros F H.
apply (reduce x (12102203 / 8388608) (-1453635 / 2097152) (1072225 / 562949953421312) 0.346576 12583103 (-150) (0) (23258160)); try lia; try exact F.
- rewrite opp_IZR. powers. field.
- lra.
- lra.
- split; interval with (i_prec 60).
- intros d Hd. split; interval with (i_prec 60).
- intros d Hd. split; interval with (i_prec 60).
- intros k Hk. assert (L := two_parts). revert L. generalize ((-1453635 / 2097152) + (1072225 / 562949953421312) + ln 2). intros l L. interval with (i_prec 60).
Qed.

(** The reduction of the argument: x = k*ln 2 + R, and r is near R. *)
Lemma reduction_positive : forall x, F32 (xc x) -> 0 <= (xc x) <= 89 -> magic x = 12582975 ->
  exists k : Z, let R := (xc x) - IZR k * ln 2 in
  (0 <= k <= 128)%Z /\ t x = IZR (k + 12582975) /\
  Rabs R <= 0.346576 /\ Rabs (r x - R) <= / 67108864 + / 35184372088832 /\
  (R < 0 -> r x <= / 35184372088832) /\ (0 <= R -> - / 35184372088832 <= r x).
Proof.
intros x. unfold r, t4, n, t. intros F H Hm. rewrite Hm. clear Hm. revert F H.
generalize (xc x). clear x. intros x. intros F H.
apply (reduce x (12102203 / 8388608) (-1453635 / 2097152) (1072225 / 562949953421312) 0.346576 12582975 (0) (128) (23258160)); try lia; try exact F.
- rewrite opp_IZR. powers. field.
- lra.
- lra.
- split; interval with (i_prec 60).
- intros d Hd. split; interval with (i_prec 60).
- intros d Hd. split; interval with (i_prec 60).
- intros k Hk. assert (L := two_parts). revert L. generalize ((-1453635 / 2097152) + (1072225 / 562949953421312) + ln 2). intros l L. interval with (i_prec 60).
Qed.


(** The polynomial with its roundings, for an argument whose own error is d. *)
Lemma total_below : forall x d, -0.34658 <= r x <= 0 -> Rabs d <= / 67108864 + / 35184372088832 ->
  Rabs (p x * 1 - exp (r x + d)) <= 0.925 * / 16777216.
Proof.
intros x d. unfold p, t9, t8, t7, t6, t5. generalize (r x). clear x. intros r H Hd.
match goal with |- Rabs (?p * _ - _) <= _ => replace (p * 1 - exp (r + d))
  with ((p - polynomial r) * 1 + exp r * ((polynomial r * 1 * exp (- r) - 1) - (exp d - 1))) end.
2: { rewrite exp_plus, exp_Ropp. field. generalize (exp_pos r); lra. }
generalize (method r ltac:(apply Rabs_le; lra)). generalize (polynomial r * 1 * exp (- r) - 1). intros m M.
rounding (-6)%Z. rounding (-4)%Z. rounding (-2)%Z. rounding (-1)%Z. rounding (0)%Z. rounding (0)%Z.
match goal with |- Rabs ((?A - _) * _ + _) <= _ => replace (A - polynomial r) with (((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) by (unfold polynomial; ring) end.
interval with (i_bisect r, i_prec 60, i_depth 20).
Qed.

Lemma total_above : forall x d, 0 <= r x <= 0.34658 -> Rabs d <= / 67108864 + / 35184372088832 ->
  Rabs (p x * 1 - exp (r x + d)) <= 0.925 * / 8388608.
Proof.
intros x d. unfold p, t9, t8, t7, t6, t5. generalize (r x). clear x. intros r H Hd.
match goal with |- Rabs (?p * _ - _) <= _ => replace (p * 1 - exp (r + d))
  with ((p - polynomial r) * 1 + exp r * ((polynomial r * 1 * exp (- r) - 1) - (exp d - 1))) end.
2: { rewrite exp_plus, exp_Ropp. field. generalize (exp_pos r); lra. }
generalize (method r ltac:(apply Rabs_le; lra)). generalize (polynomial r * 1 * exp (- r) - 1). intros m M.
rounding (-6)%Z. rounding (-4)%Z. rounding (-2)%Z. rounding (0)%Z. rounding (1)%Z. rounding (1)%Z.
match goal with |- Rabs ((?A - _) * _ + _) <= _ => replace (A - polynomial r) with (((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) by (unfold polynomial; ring) end.
interval with (i_bisect r, i_prec 60, i_depth 20).
Qed.

Lemma at_least : forall x, 0 <= r x <= 0.34658 -> bpow radix2 (-0) <= p x.
Proof.
intros x. unfold p, t9, t8, t7, t6, t5. generalize (r x). clear x. intros r H.
apply round_ge_generic; auto with typeclass_instances. apply generic_format_bpow; unfold FLT_exp; lia.
rounding (-6)%Z. rounding (-4)%Z. rounding (-2)%Z. rounding (0)%Z. rounding (1)%Z.
bound.
Qed.

Lemma near_zero : forall x, Rabs (r x) <= / 35184372088832 -> p x = bpow radix2 (-0).
Proof.
intros x. unfold p, t9, t8, t7, t6, t5. generalize (r x). clear x. intros r H.
apply rnd_power. lia.
rounding (-6)%Z. rounding (-4)%Z. rounding (-2)%Z. rounding (0)%Z. rounding (1)%Z.
powers.
match goal with |- Rabs (?A * r + ?c - ?c') <= _ => replace (A * r + c - c') with (A * r) by field end.
interval with (i_prec 60).
Qed.

(** The polynomial against the exponential of R, in units of 2^(j-24), where j says in which binade that is. *)
Lemma near_exponential : forall x R, Rabs R <= 0.346576 -> Rabs (r x - R) <= / 67108864 + / 35184372088832 ->
  (R < 0 -> r x <= / 35184372088832) -> (0 <= R -> - / 35184372088832 <= r x) ->
  exists j : Z, (0 <= j <= 1)%Z /\ bpow radix2 (j - 1) <= exp R < bpow radix2 j /\
  bpow radix2 (j - 1) <= p x * bpow radix2 0 /\
  Rabs (p x * bpow radix2 0 - exp R) <= 0.925 * bpow radix2 (j - 24).
Proof.
intros x R HR Hr Hbelow Habove. apply Rabs_le_inv in HR. apply Rabs_le_inv in Hr.
assert (ED : exp R = exp (r x + (R - r x))) by (f_equal; ring).
assert (HD : Rabs (R - r x) <= / 67108864 + / 35184372088832) by (apply Rabs_le; lra).
destruct (Rlt_le_dec R 0) as [N | N].
- exists 0%Z. specialize (Hbelow N). change (0 - 1)%Z with (-1)%Z. change (0 - 24)%Z with (-24)%Z. powers.
  assert (E : Rabs (p x * 1 - exp R) <= 0.925 * / 16777216).
  { destruct (Rle_lt_dec (r x) 0) as [M | M].
    - rewrite ED. apply total_below. lra. exact HD.
    - rewrite near_zero by (apply Rabs_le; lra). powers. rewrite ED.
      match goal with |- Rabs (?a * ?b - _) <= _ => replace (a * b) with 1 by field end.
      rewrite <- ED. assert (- / 33554432 <= R <= 0) by lra. clear - H. interval with (i_prec 60, i_autodiff R). }
  assert (exp R < 1) by (rewrite <- exp_0; now apply exp_increasing).
  assert (7 / 10 <= exp R) by (clear - HR; interval with (i_prec 60)).
  repeat split; try lia; try lra. apply Rabs_le_inv in E. lra.
- exists 1%Z. specialize (Habove N). change (1 - 1)%Z with 0%Z. change (1 - 24)%Z with (-23)%Z. powers.
  assert (1 <= exp R) by (rewrite <- exp_0; destruct N as [N | N]; [left; now apply exp_increasing | rewrite <- N; apply Rle_refl]).
  assert (exp R < 2) by (clear - HR; interval with (i_prec 60)).
  destruct (Rle_lt_dec 0 (r x)) as [M | M].
  + assert (A := at_least x ltac:(lra)). revert A. powers. intros A.
    repeat split; try lia; try lra.
    rewrite ED. apply total_above. lra. exact HD.
  + rewrite near_zero by (apply Rabs_le; lra). powers.
    match goal with |- context [?a * ?b - exp R] => replace (a * b) with 1 by field end.
    assert (0 <= R <= / 33554432) by lra.
    repeat split; try lia; try lra. clear - H1. interval with (i_prec 60, i_autodiff R).
Qed.

Lemma core_negative : forall x, F32 (xc x) -> (-104) <= (xc x) <= 0 -> magic x = 12583103 -> unbias x = (1 / 18446744073709551616) ->
  exists w, exp_f32 x = rnd w /\ Rabs (w - exp (xc x)) <= exp (xc x) * / 1048576 /\
  (bpow radix2 (-126) <= exp (xc x) -> Rabs (exp_f32 x - exp (xc x)) <= 0.925 * ulp32 (exp (xc x))) /\
  (exp (xc x) < bpow radix2 (-126) -> Rabs (exp_f32 x - exp (xc x)) <= 0.9625 * ulp32 (exp (xc x))).
Proof.
intros x F H Hm Hu. destruct (reduction_negative x F H Hm) as [k [Hk [Et [HR [Hr [Hbelow Habove]]]]]].
set (R := (xc x) - IZR k * ln 2) in *.
destruct (near_exponential x R HR Hr Hbelow Habove) as [j [Hj [Ej [Hp He]]]].
assert (EE : exp (xc x) = exp R * bpow radix2 k).
{ rewrite bpow_exp, <- exp_plus. f_equal. change (IZR radix2) with 2. unfold R. ring. }
assert (FP : F32 (p x)) by (apply generic_format_round; auto with typeclass_instances).
assert (ES : s x = bpow radix2 (k + 191 - 127)).
{ unfold s, t11, t10. rewrite Et. apply float_shl_bits; try lia.
  clear - Hk. Z.to_euclidean_division_equations. lia. }
assert (EY : exp_f32 x = rnd (p x * bpow radix2 (k + 0))).
{ unfold exp_f32, t13, t12. rewrite ES.
  rewrite (round_generic _ _ _ (p x * _)); auto with typeclass_instances.
  - rewrite Hu. replace (1 / 18446744073709551616) with (bpow radix2 (-64)) by (powers; lra).
    rewrite Rmult_assoc, <- bpow_plus. do 3 f_equal. lia.
  - apply F32_scale with (j - 0)%Z; [exact FP | | lia].
    apply scaled_at_least. exact Hp. }
exists (p x * bpow radix2 (k + 0)). split. exact EY. split.
- rewrite EE. apply scaled_near with j. exact (proj1 Ej). apply Rle_trans with (1 := He).
  apply Rmult_le_compat_r. apply bpow_ge_0. lra.
- rewrite EY, EE. replace 0.9625 with (/ 2 + 0.925 / 2) by lra.
  apply (scaled_error _ _ 0.925 0 j k FP); [lra | exact Ej | exact Hp | exact He].
Qed.

Lemma core_positive : forall x, F32 (xc x) -> 0 <= (xc x) <= 89 -> magic x = 12582975 -> unbias x = 18446744073709551616 ->
  exists w, exp_f32 x = rnd w /\ Rabs (w - exp (xc x)) <= exp (xc x) * / 1048576 /\
  (bpow radix2 (-126) <= exp (xc x) -> Rabs (exp_f32 x - exp (xc x)) <= 0.925 * ulp32 (exp (xc x))) /\
  (exp (xc x) < bpow radix2 (-126) -> Rabs (exp_f32 x - exp (xc x)) <= 0.9625 * ulp32 (exp (xc x))).
Proof.
intros x F H Hm Hu. destruct (reduction_positive x F H Hm) as [k [Hk [Et [HR [Hr [Hbelow Habove]]]]]].
set (R := (xc x) - IZR k * ln 2) in *.
destruct (near_exponential x R HR Hr Hbelow Habove) as [j [Hj [Ej [Hp He]]]].
assert (EE : exp (xc x) = exp R * bpow radix2 k).
{ rewrite bpow_exp, <- exp_plus. f_equal. change (IZR radix2) with 2. unfold R. ring. }
assert (FP : F32 (p x)) by (apply generic_format_round; auto with typeclass_instances).
assert (ES : s x = bpow radix2 (k + 63 - 127)).
{ unfold s, t11, t10. rewrite Et. apply float_shl_bits; try lia.
  clear - Hk. Z.to_euclidean_division_equations. lia. }
assert (EY : exp_f32 x = rnd (p x * bpow radix2 (k + 0))).
{ unfold exp_f32, t13, t12. rewrite ES.
  rewrite (round_generic _ _ _ (p x * _)); auto with typeclass_instances.
  - rewrite Hu. replace 18446744073709551616 with (bpow radix2 (64)) by (powers; lra).
    rewrite Rmult_assoc, <- bpow_plus. do 3 f_equal. lia.
  - apply F32_scale with (j - 0)%Z; [exact FP | | lia].
    apply scaled_at_least. exact Hp. }
exists (p x * bpow radix2 (k + 0)). split. exact EY. split.
- rewrite EE. apply scaled_near with j. exact (proj1 Ej). apply Rle_trans with (1 := He).
  apply Rmult_le_compat_r. apply bpow_ge_0. lra.
- rewrite EY, EE. replace 0.9625 with (/ 2 + 0.925 / 2) by lra.
  apply (scaled_error _ _ 0.925 0 j k FP); [lra | exact Ej | exact Hp | exact He].
Qed.


(** The core, for the argument between its bounds. *)
Lemma cores : forall x, F32 x -> x <= 89 ->
  exists w, exp_f32 x = rnd w /\ Rabs (w - exp (xc x)) <= exp (xc x) * / 1048576 /\
  (bpow radix2 (-126) <= exp (xc x) -> Rabs (exp_f32 x - exp (xc x)) <= 0.925 * ulp32 (exp (xc x))) /\
  (exp (xc x) < bpow radix2 (-126) -> Rabs (exp_f32 x - exp (xc x)) <= 0.9625 * ulp32 (exp (xc x))).
Proof.
intros x F H.
assert (FL : F32 (-104)) by (replace (-104) with ((-104) * bpow radix2 0) by (simpl; ring); apply F32_dyadic; lia).
assert (FH : F32 89) by (replace 89 with (89 * bpow radix2 0) by (simpl; ring); apply F32_dyadic; lia).
assert (A : F32 (xc x) /\ ((-104) <= x -> (xc x) = x) /\ (x < (-104) -> (xc x) = (-104))).
{ unfold xc, t3, t2, t1. repeat case Rlt_bool_spec; intros; repeat split; auto; lra. }
destruct A as [FA [A1 A2]].
destruct (Rlt_le_dec x 0) as [N | N].
- apply core_negative; auto.
  + destruct (Rlt_le_dec x (-104)); [rewrite A2 by assumption | rewrite A1 by assumption]; lra.
  + unfold magic, isneg. rewrite Rlt_bool_true by exact N. reflexivity.
  + unfold unbias, isneg. rewrite Rlt_bool_true by exact N. reflexivity.
- apply core_positive; auto.
  + rewrite A1 by lra. lra.
  + unfold magic, isneg. rewrite Rlt_bool_false by exact N. reflexivity.
  + unfold unbias, isneg. rewrite Rlt_bool_false by exact N. reflexivity.
Qed.

(** For every binary32 x up to 89, exp is within 0.925 ulp of the exponential, and within 0.9625 ulp where that
    is below 2^-126; below (-104) the result is 0.

    Speaks of: exp e61e11cbf7dc70649d3c11e77e7d50ea3389ad82aa7685b53363314dc1263caa

    Rests on it: fn.ExpFunction. *)
Theorem exp_ulps : forall x, F32 x -> x <= 89 ->
  (bpow radix2 (-126) <= exp x -> Rabs (exp_f32 x - exp x) <= 0.925 * ulp32 (exp x)) /\
  (exp x < bpow radix2 (-126) -> Rabs (exp_f32 x - exp x) <= 0.9625 * ulp32 (exp x)) /\
  (x < (-104) -> exp_f32 x = 0).
Proof.
intros x F H. destruct (cores x F H) as [w [E [W C]]].
destruct (Rlt_le_dec x (-104)) as [N | N].
- assert (A : (xc x) = (-104)) by (unfold xc, t3, t2, t1; repeat case Rlt_bool_spec; intros; lra).
  rewrite A in W.
  assert (Z : exp_f32 x = 0).
  { rewrite E. apply rnd_zero. assert (exp (-104) <= 6.9e-46) by interval with (i_prec 60).
    apply Rabs_le_inv in W. assert (0 < exp (-104)) by apply exp_pos.
    apply Rlt_le_trans with 7e-46. apply Rabs_lt. lra. powers. interval with (i_prec 60). }
  assert (S : exp x < 7e-46).
  { apply Rlt_trans with (exp (-104)). apply exp_increasing. exact N. interval with (i_prec 60). }
  assert (P : 0 < exp x) by apply exp_pos.
  assert (T : 7e-46 <= bpow radix2 (-150)) by (powers; interval with (i_prec 60)).
  assert (T2 : bpow radix2 (-150) <= bpow radix2 (-126)) by (apply bpow_le; lia).
  assert (U := ulp32_least (exp x)).
  assert (T3 : bpow radix2 (-149) = 2 * bpow radix2 (-150)) by (change (-149)%Z with (1 + -150)%Z; rewrite bpow_plus; reflexivity).
  rewrite Z. repeat split.
  + lra.
  + intros _. rewrite Rabs_minus_sym, Rminus_0_r, Rabs_pos_eq by lra. lra.
- assert (A : (xc x) = x) by (unfold xc, t3, t2, t1; repeat case Rlt_bool_spec; intros; lra).
  rewrite A in C. destruct C as [C1 C2]. repeat split; auto. intros. lra.
Qed.

