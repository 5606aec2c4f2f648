(** * exp_nonpositive

    The largest error of the function exp_nonpositive in ulps, from its nodes. Written by tokitai prove exp_nonpositive --emit; do not edit. *)

From Coq Require Import Reals ZArith Lia Lra.
From Flocq Require Import Core.
From Interval Require Import Tactic.
From Tokitai Require Import functions.Binary32.
Open Scope R_scope.

(* function exp_nonpositive(x): exp within 0.9 ulp for x <= 44
  t1 = less(x, -104)
  xc = select(t1, -104, x)
  t = fma(xc, 0x1.715476p+00, 1.2583103e+07)
  n = sub(t, 1.2583103e+07)
  t2 = fma(n, -0x1.62e43p-01, xc)
  r = fma(n, 0x1.05c61p-29, t2)
  t3 = fma(0x1.6a3d0ap-74, r, 0x1.123856p-71)
  t4 = fma(t3, r, 0x1.5558bep-69)
  t5 = fma(t4, r, 0x1.555494p-67)
  t6 = fma(t5, r, 0x1.fffffcp-66)
  t7 = fma(t6, r, 0x1p-64)
  p = fma(t7, r, 0x1p-64)
  t8 = bits(t)
  t9 = shl(t8, 23i)
  s = float(t9)
  t10 = mul(p, s)
  return t10
*)
Section Nodes.
Variable x : R.
Definition t1 := Rlt_bool x (-104).
Definition xc := if t1 then (-104) else x.
Definition t := rnd (xc * (12102203 / 8388608) + 12583103).
Definition n := rnd (t - 12583103).
Definition t2 := rnd (n * (-1453635 / 2097152) + xc).
Definition r := rnd (n * (1072225 / 562949953421312) + t2).
Definition t3 := rnd ((11869829 / 158456325028528675187087900672) * r + (8985643 / 19807040628566084398385987584)).
Definition t4 := rnd (t3 * r + (11185247 / 4951760157141521099596496896)).
Definition t5 := rnd (t4 * r + (5592357 / 618970019642690137449562112)).
Definition t6 := rnd (t5 * r + (8388607 / 309485009821345068724781056)).
Definition t7 := rnd (t6 * r + (1 / 18446744073709551616)).
Definition p := rnd (t7 * r + (1 / 18446744073709551616)).
Definition t8 := bits t.
Definition t9 := shl t8 (23)%Z.
Definition s := float t9.
Definition t10 := rnd (p * s).
Definition exp_nonpositive_f32 := t10.
End Nodes.

(** The two parts of ln 2. *)
Lemma two_parts : Rabs ((-1453635 / 2097152) + (1072225 / 562949953421312) + ln 2) <= 0.000000000000000088.
Proof. interval with (i_prec 120). Qed.

(** The polynomial, without roundings. *)
Definition polynomial (r : R) := (((((((11869829 / 158456325028528675187087900672) * r + (8985643 / 19807040628566084398385987584)) * r + (11185247 / 4951760157141521099596496896)) * r + (5592357 / 618970019642690137449562112)) * r + (8388607 / 309485009821345068724781056)) * r + (1 / 18446744073709551616)) * r + (1 / 18446744073709551616)).

Lemma method : forall r, Rabs r <= 0.34658 -> Rabs (polynomial r * 18446744073709551616 * exp (- r) - 1) <= 0.0000000031396.
Proof. intros r H. unfold polynomial. interval with (i_bisect r, i_taylor r, i_degree 10, i_prec 90, i_depth 25). Qed.

(** The reduction of the argument: x = k*ln 2 + R, and r is near R. *)
Lemma reduction : forall x, F32 (xc x) -> (-104) <= (xc x) <= 44 ->
  exists k : Z, let R := (xc x) - IZR k * ln 2 in
  (-150 <= k <= 63)%Z /\ t x = IZR (k + 12583103) /\
  Rabs R <= 0.346576 /\ Rabs (r x - R) <= / 67108864 + / 35184372088832 /\
  (R < 0 -> r x <= / 35184372088832) /\ (0 <= R -> - / 35184372088832 <= r x).
Proof.
intros x. unfold r, t2, n, t.
generalize (xc x). clear x. intros x. intros F H.
apply (reduce x (12102203 / 8388608) (-1453635 / 2097152) (1072225 / 562949953421312) 0.346576 12583103 (-150) (63) (23258160)); try lia; try exact F.
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
intros x d. unfold p, t7, t6, t5, t4, t3. generalize (r x). clear x. intros r H Hd.
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
intros x d. unfold p, t7, t6, t5, t4, t3. generalize (r x). clear x. intros r H Hd.
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
intros x. unfold p, t7, t6, t5, t4, t3. generalize (r x). clear x. intros r H.
apply round_ge_generic; auto with typeclass_instances. apply generic_format_bpow; unfold FLT_exp; lia.
rounding (-70)%Z. rounding (-68)%Z. rounding (-66)%Z. rounding (-64)%Z. rounding (-63)%Z.
bound.
Qed.

Lemma near_zero : forall x, Rabs (r x) <= / 35184372088832 -> p x = bpow radix2 (-64).
Proof.
intros x. unfold p, t7, t6, t5, t4, t3. generalize (r x). clear x. intros r H.
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

Lemma core : forall x, F32 (xc x) -> (-104) <= (xc x) <= 44 ->
  exists w, exp_nonpositive_f32 x = rnd w /\ Rabs (w - exp (xc x)) <= exp (xc x) * / 1048576 /\
  (bpow radix2 (-126) <= exp (xc x) -> Rabs (exp_nonpositive_f32 x - exp (xc x)) <= 0.925 * ulp32 (exp (xc x))) /\
  (exp (xc x) < bpow radix2 (-126) -> Rabs (exp_nonpositive_f32 x - exp (xc x)) <= 0.9625 * ulp32 (exp (xc x))).
Proof.
intros x F H. destruct (reduction x F H) as [k [Hk [Et [HR [Hr [Hbelow Habove]]]]]].
set (R := (xc x) - IZR k * ln 2) in *.
destruct (near_exponential x R HR Hr Hbelow Habove) as [j [Hj [Ej [Hp He]]]].
assert (EE : exp (xc x) = exp R * bpow radix2 k).
{ rewrite bpow_exp, <- exp_plus. f_equal. change (IZR radix2) with 2. unfold R. ring. }
assert (FP : F32 (p x)) by (apply generic_format_round; auto with typeclass_instances).
assert (ES : s x = bpow radix2 (k + 191 - 127)).
{ unfold s, t9, t8. rewrite Et. apply float_shl_bits; try lia.
  clear - Hk. Z.to_euclidean_division_equations. lia. }
assert (EY : exp_nonpositive_f32 x = rnd (p x * bpow radix2 (k + 64))).
{ unfold exp_nonpositive_f32, t10. rewrite ES.
  do 3 f_equal. lia. }
exists (p x * bpow radix2 (k + 64)). split. exact EY. split.
- rewrite EE. apply scaled_near with j. exact (proj1 Ej). apply Rle_trans with (1 := He).
  apply Rmult_le_compat_r. apply bpow_ge_0. lra.
- rewrite EY, EE. replace 0.9625 with (/ 2 + 0.925 / 2) by lra.
  apply (scaled_error _ _ 0.925 64 j k FP); [lra | exact Ej | exact Hp | exact He].
Qed.


(** The core, for the argument between its bounds. *)
Lemma cores : forall x, F32 x -> x <= 44 ->
  exists w, exp_nonpositive_f32 x = rnd w /\ Rabs (w - exp (xc x)) <= exp (xc x) * / 1048576 /\
  (bpow radix2 (-126) <= exp (xc x) -> Rabs (exp_nonpositive_f32 x - exp (xc x)) <= 0.925 * ulp32 (exp (xc x))) /\
  (exp (xc x) < bpow radix2 (-126) -> Rabs (exp_nonpositive_f32 x - exp (xc x)) <= 0.9625 * ulp32 (exp (xc x))).
Proof.
intros x F H.
assert (FL : F32 (-104)) by (replace (-104) with ((-104) * bpow radix2 0) by (simpl; ring); apply F32_dyadic; lia).
assert (A : F32 (xc x) /\ ((-104) <= x -> (xc x) = x) /\ (x < (-104) -> (xc x) = (-104))).
{ unfold xc, t1. repeat case Rlt_bool_spec; intros; repeat split; auto; lra. }
destruct A as [FA [A1 A2]].
apply core; auto.
destruct (Rlt_le_dec x (-104)); [rewrite A2 by assumption | rewrite A1 by assumption]; lra.
Qed.

(** For every binary32 x up to 44, exp_nonpositive is within 0.925 ulp of the exponential, and within 0.9625 ulp where that
    is below 2^-126; below (-104) the result is 0.

    Speaks of: exp_nonpositive a47d37a9ca0edfaf8d2b10a767e73752ff969b9c93b56c6b7d91dd637a46b9ce

    Rests on it: fn.ExpNonPositiveFunction. *)
Theorem exp_nonpositive_ulps : forall x, F32 x -> x <= 44 ->
  (bpow radix2 (-126) <= exp x -> Rabs (exp_nonpositive_f32 x - exp x) <= 0.925 * ulp32 (exp x)) /\
  (exp x < bpow radix2 (-126) -> Rabs (exp_nonpositive_f32 x - exp x) <= 0.9625 * ulp32 (exp x)) /\
  (x < (-104) -> exp_nonpositive_f32 x = 0).
Proof.
intros x F H. destruct (cores x F H) as [w [E [W C]]].
destruct (Rlt_le_dec x (-104)) as [N | N].
- assert (A : (xc x) = (-104)) by (unfold xc, t1; repeat case Rlt_bool_spec; intros; lra).
  rewrite A in W.
  assert (Z : exp_nonpositive_f32 x = 0).
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
- assert (A : (xc x) = x) by (unfold xc, t1; repeat case Rlt_bool_spec; intros; lra).
  rewrite A in C. destruct C as [C1 C2]. repeat split; auto. intros. lra.
Qed.

