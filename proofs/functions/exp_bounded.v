(** * exp_bounded

    The largest error of the function exp_bounded in ulps, from its nodes. Written by tokitai prove exp_bounded --emit; do not edit. *)

From Coq Require Import Reals ZArith Lia Lra.
From Flocq Require Import Core.
From Interval Require Import Tactic.
From Tokitai Require Import functions.Binary32.
Open Scope R_scope.

(* function exp_bounded(x): exp within 0.9 ulp for -128 <= x <= 44
  t = fma(x, 0x1.715476p+00, 1.2583103e+07)
  n = sub(t, 1.2583103e+07)
  t1 = fma(n, -0x1.62e43p-01, x)
  r = fma(n, 0x1.05c61p-29, t1)
  t2 = fma(0x1.6a3d0ap-74, r, 0x1.123856p-71)
  t3 = fma(t2, r, 0x1.5558bep-69)
  t4 = fma(t3, r, 0x1.555494p-67)
  t5 = fma(t4, r, 0x1.fffffcp-66)
  t6 = fma(t5, r, 0x1p-64)
  p = fma(t6, r, 0x1p-64)
  t7 = bits(t)
  t8 = shl(t7, 23i)
  s = float(t8)
  t9 = mul(p, s)
  return t9
*)
Section Nodes.
Variable x : R.
Definition t := rnd (x * (12102203 / 8388608) + 12583103).
Definition n := rnd (t - 12583103).
Definition t1 := rnd (n * (-1453635 / 2097152) + x).
Definition r := rnd (n * (1072225 / 562949953421312) + t1).
Definition t2 := rnd ((11869829 / 158456325028528675187087900672) * r + (8985643 / 19807040628566084398385987584)).
Definition t3 := rnd (t2 * r + (11185247 / 4951760157141521099596496896)).
Definition t4 := rnd (t3 * r + (5592357 / 618970019642690137449562112)).
Definition t5 := rnd (t4 * r + (8388607 / 309485009821345068724781056)).
Definition t6 := rnd (t5 * r + (1 / 18446744073709551616)).
Definition p := rnd (t6 * r + (1 / 18446744073709551616)).
Definition t7 := bits t.
Definition t8 := shl t7 (23)%Z.
Definition s := float t8.
Definition t9 := rnd (p * s).
Definition exp_bounded_f32 := t9.
End Nodes.

(** The two parts of ln 2. *)
Lemma two_parts : Rabs ((-1453635 / 2097152) + (1072225 / 562949953421312) + ln 2) <= 0.000000000000000088.
Proof. interval with (i_prec 120). Qed.

(** The polynomial, without roundings. *)
Definition polynomial (r : R) := (((((((11869829 / 158456325028528675187087900672) * r + (8985643 / 19807040628566084398385987584)) * r + (11185247 / 4951760157141521099596496896)) * r + (5592357 / 618970019642690137449562112)) * r + (8388607 / 309485009821345068724781056)) * r + (1 / 18446744073709551616)) * r + (1 / 18446744073709551616)).

Lemma method : forall r, Rabs r <= 0.34658 -> Rabs (polynomial r * 18446744073709551616 * exp (- r) - 1) <= 0.0000000031396.
Proof. intros r H. unfold polynomial. interval with (i_bisect r, i_taylor r, i_degree 10, i_prec 90, i_depth 25). Qed.

(** The reduction of the argument: x = k*ln 2 + R, and r is near R. *)
Lemma reduction : forall x, F32 x -> (-128) <= x <= 44 ->
  exists k : Z, let R := x - IZR k * ln 2 in
  (-185 <= k <= 63)%Z /\ t x = IZR (k + 12583103) /\
  Rabs R <= 0.346576 /\ Rabs (r x - R) <= / 67108864 + / 35184372088832 /\
  (R < 0 -> r x <= / 35184372088832) /\ (0 <= R -> - / 35184372088832 <= r x).
Proof.
intros x. unfold r, t1, n, t.
intros F H.
apply (reduce x (12102203 / 8388608) (-1453635 / 2097152) (1072225 / 562949953421312) 0.346576 12583103 (-185) (63) (23258160)); try lia; try exact F.
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
  Rabs (p x * 18446744073709551616 - exp (r x + d)) <= 0.925 * / 16777216.
Proof.
intros x d. unfold p, t6, t5, t4, t3, t2. generalize (r x). clear x. intros r H Hd.
match goal with |- Rabs (?p * _ - _) <= _ => replace (p * 18446744073709551616 - exp (r + d))
  with ((p - polynomial r) * 18446744073709551616 + exp r * ((polynomial r * 18446744073709551616 * exp (- r) - 1) - (exp d - 1))) end.
2: { rewrite exp_plus, exp_Ropp. field. generalize (exp_pos r); lra. }
generalize (method r ltac:(apply Rabs_le; lra)). generalize (polynomial r * 18446744073709551616 * exp (- r) - 1). intros m M.
rounding (-70)%Z. rounding (-68)%Z. rounding (-66)%Z. rounding (-65)%Z. rounding (-64)%Z. rounding (-64)%Z.
match goal with |- Rabs ((?A - _) * _ + _) <= _ => replace (A - polynomial r) with (((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) by (unfold polynomial; ring) end.
interval with (i_bisect r, i_prec 60, i_depth 20).
Qed.

Lemma total_above : forall x d, 0 <= r x <= 0.34658 -> Rabs d <= / 67108864 + / 35184372088832 ->
  Rabs (p x * 18446744073709551616 - exp (r x + d)) <= 0.925 * / 8388608.
Proof.
intros x d. unfold p, t6, t5, t4, t3, t2. generalize (r x). clear x. intros r H Hd.
match goal with |- Rabs (?p * _ - _) <= _ => replace (p * 18446744073709551616 - exp (r + d))
  with ((p - polynomial r) * 18446744073709551616 + exp r * ((polynomial r * 18446744073709551616 * exp (- r) - 1) - (exp d - 1))) end.
2: { rewrite exp_plus, exp_Ropp. field. generalize (exp_pos r); lra. }
generalize (method r ltac:(apply Rabs_le; lra)). generalize (polynomial r * 18446744073709551616 * exp (- r) - 1). intros m M.
rounding (-70)%Z. rounding (-68)%Z. rounding (-66)%Z. rounding (-64)%Z. rounding (-63)%Z. rounding (-63)%Z.
match goal with |- Rabs ((?A - _) * _ + _) <= _ => replace (A - polynomial r) with (((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) by (unfold polynomial; ring) end.
interval with (i_bisect r, i_prec 60, i_depth 20).
Qed.

Lemma at_least : forall x, 0 <= r x <= 0.34658 -> bpow radix2 (-64) <= p x.
Proof.
intros x. unfold p, t6, t5, t4, t3, t2. generalize (r x). clear x. intros r H.
apply round_ge_generic; auto with typeclass_instances. apply generic_format_bpow; unfold FLT_exp; lia.
rounding (-70)%Z. rounding (-68)%Z. rounding (-66)%Z. rounding (-64)%Z. rounding (-63)%Z.
bound.
Qed.

Lemma near_zero : forall x, Rabs (r x) <= / 35184372088832 -> p x = bpow radix2 (-64).
Proof.
intros x. unfold p, t6, t5, t4, t3, t2. generalize (r x). clear x. intros r H.
apply rnd_power. lia.
rounding (-70)%Z. rounding (-68)%Z. rounding (-66)%Z. rounding (-64)%Z. rounding (-63)%Z.
powers.
match goal with |- Rabs (?A * r + ?c - ?c') <= _ => replace (A * r + c - c') with (A * r) by field end.
interval with (i_prec 60).
Qed.

(** The polynomial against the exponential of R, in units of 2^(j-24), where j says in which binade that is. *)
Lemma near_exponential : forall x R, Rabs R <= 0.346576 -> Rabs (r x - R) <= / 67108864 + / 35184372088832 ->
  (R < 0 -> r x <= / 35184372088832) -> (0 <= R -> - / 35184372088832 <= r x) ->
  exists j : Z, (0 <= j <= 1)%Z /\ bpow radix2 (j - 1) <= exp R < bpow radix2 j /\
  bpow radix2 (j - 1) <= p x * bpow radix2 64 /\
  Rabs (p x * bpow radix2 64 - exp R) <= 0.925 * bpow radix2 (j - 24).
Proof.
intros x R HR Hr Hbelow Habove. apply Rabs_le_inv in HR. apply Rabs_le_inv in Hr.
assert (ED : exp R = exp (r x + (R - r x))) by (f_equal; ring).
assert (HD : Rabs (R - r x) <= / 67108864 + / 35184372088832) by (apply Rabs_le; lra).
destruct (Rlt_le_dec R 0) as [N | N].
- exists 0%Z. specialize (Hbelow N). change (0 - 1)%Z with (-1)%Z. change (0 - 24)%Z with (-24)%Z. powers.
  assert (E : Rabs (p x * 18446744073709551616 - exp R) <= 0.925 * / 16777216).
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

Lemma core : forall x, F32 x -> (-128) <= x <= 44 ->
  exists w, exp_bounded_f32 x = rnd w /\ Rabs (w - exp x) <= exp x * / 1048576 /\
  (bpow radix2 (-126) <= exp x -> Rabs (exp_bounded_f32 x - exp x) <= 0.925 * ulp32 (exp x)) /\
  (exp x < bpow radix2 (-126) -> Rabs (exp_bounded_f32 x - exp x) <= 0.9625 * ulp32 (exp x)).
Proof.
intros x F H. destruct (reduction x F H) as [k [Hk [Et [HR [Hr [Hbelow Habove]]]]]].
set (R := x - IZR k * ln 2) in *.
destruct (near_exponential x R HR Hr Hbelow Habove) as [j [Hj [Ej [Hp He]]]].
assert (EE : exp x = exp R * bpow radix2 k).
{ rewrite bpow_exp, <- exp_plus. f_equal. change (IZR radix2) with 2. unfold R. ring. }
assert (FP : F32 (p x)) by (apply generic_format_round; auto with typeclass_instances).
assert (ES : s x = bpow radix2 (k + 191 - 127)).
{ unfold s, t8, t7. rewrite Et. apply float_shl_bits; try lia.
  clear - Hk. Z.to_euclidean_division_equations. lia. }
assert (EY : exp_bounded_f32 x = rnd (p x * bpow radix2 (k + 64))).
{ unfold exp_bounded_f32, t9. rewrite ES.
  do 3 f_equal. lia. }
exists (p x * bpow radix2 (k + 64)). split. exact EY. split.
- rewrite EE. apply scaled_near with j. exact (proj1 Ej). apply Rle_trans with (1 := He).
  apply Rmult_le_compat_r. apply bpow_ge_0. lra.
- rewrite EY, EE. replace 0.9625 with (/ 2 + 0.925 / 2) by lra.
  apply (scaled_error _ _ 0.925 64 j k FP); [lra | exact Ej | exact Hp | exact He].
Qed.


(** For every binary32 x with (-128) <= x <= 44, exp_bounded is within 0.925 ulp of the exponential, and within 0.9625 ulp
    where that is below 2^-126.

    Speaks of: exp_bounded a9d0e335e36fba683a934b6c5f2baccb2863a763f89077f3d397a8f54b5e1b6c

    Rests on it: fn.ExpBoundedFunction. *)
Theorem exp_bounded_ulps : forall x, F32 x -> (-128) <= x <= 44 ->
  (bpow radix2 (-126) <= exp x -> Rabs (exp_bounded_f32 x - exp x) <= 0.925 * ulp32 (exp x)) /\
  (exp x < bpow radix2 (-126) -> Rabs (exp_bounded_f32 x - exp x) <= 0.9625 * ulp32 (exp x)).
Proof.
intros x F H. destruct (core x F H) as [w [_ [_ C]]]. exact C.
Qed.

