(** * log

    The largest error of the function log in ulps, from its nodes. Written by tokitai prove log --emit; do not edit. *)

From Coq Require Import Reals ZArith Lia Lra.
From Flocq Require Import Core.
From Interval Require Import Tactic.
From Tokitai Require Import functions.Binary32 functions.Patterns.
Open Scope R_scope.

(* function log(x): log within 0.9 ulp for x > 0
  t1 = less(x, +Inf)
  t2 = less(0, x)
  small = less(x, 0x1p-126)
  t3 = mul(x, 8.388608e+06)
  xn = select(small, t3, x)
  t4 = bits(xn)
  t5 = isub(t4, 0x3f3504f3)
  k = shr(t5, 23i)
  shift = select(small, -23i, 0i)
  t6 = iadd(k, shift)
  kf = itof(t6)
  a = mul(kf, 0x1.62e4p-01)
  t7 = shl(k, 23i)
  t8 = isub(t4, t7)
  t9 = float(t8)
  f = sub(t9, 1)
  hi = add(a, f)
  t10 = mul(f, f)
  t11 = fma(-0x1.381392p-04, f, 0x1.087506p-03)
  t12 = fma(t11, f, -0x1.0f520ap-03)
  t13 = fma(t12, f, 0x1.226c84p-03)
  t14 = fma(t13, f, -0x1.5423e8p-03)
  t15 = fma(t14, f, 0x1.99a41cp-03)
  t16 = fma(t15, f, -0x1.000438p-02)
  t17 = fma(t16, f, 0x1.55555p-02)
  q = fma(t17, f, -0x1.fffff8p-02)
  t18 = sub(a, hi)
  lo = add(t18, f)
  t19 = fma(kf, 0x1.7f7d1cp-20, lo)
  t20 = fma(t10, q, t19)
  y = add(hi, t20)
  t21 = equal(x, 0)
  t22 = select(t21, -Inf, NaN)
  t23 = select(t2, y, t22)
  t24 = select(t1, t23, x)
  return t24
*)
Section Nodes.
Variable x : R.
Variable special : R. (* the results that are no numbers: the theorem does not reach them *)
Definition t1 := true.
Definition t2 := Rlt_bool 0 x.
Definition small := Rlt_bool x (1 / 85070591730234615865843651857942052864).
Definition t3 := rnd (x * 8388608).
Definition xn := if small then t3 else x.
Definition t4 := bits xn.
Definition t5 := isub t4 (1060439283)%Z.
Definition k := shr t5 (23)%Z.
Definition shift := if small then (-23)%Z else (0)%Z.
Definition t6 := iadd k shift.
Definition kf := rnd (IZR t6).
Definition a := rnd (kf * (22713 / 32768)).
Definition t7 := shl k (23)%Z.
Definition t8 := isub t4 t7.
Definition t9 := float t8.
Definition f := rnd (t9 - 1).
Definition hi := rnd (a + f).
Definition t10 := rnd (f * f).
Definition t11 := rnd ((-10226121 / 134217728) * f + (8665731 / 67108864)).
Definition t12 := rnd (t11 * f + (-8890629 / 67108864)).
Definition t13 := rnd (t12 * f + (4758305 / 33554432)).
Definition t14 := rnd (t13 * f + (-2786429 / 16777216)).
Definition t15 := rnd (t14 * f + (6711559 / 33554432)).
Definition t16 := rnd (t15 * f + (-2097287 / 8388608)).
Definition t17 := rnd (t16 * f + (1398101 / 4194304)).
Definition q := rnd (t17 * f + (-4194303 / 8388608)).
Definition t18 := rnd (a - hi).
Definition lo := rnd (t18 + f).
Definition t19 := rnd (kf * (6283079 / 4398046511104) + lo).
Definition t20 := rnd (t10 * q + t19).
Definition y := rnd (hi + t20).
Definition t21 := Req_bool x 0.
Definition t22 := if t21 then special else special.
Definition t23 := if t2 then y else t22.
Definition t24 := if t1 then t23 else x.
Definition log_f32 := t24.
End Nodes.

(** The two parts of ln 2. *)
Lemma two_parts : Rabs ((22713 / 32768) + (6283079 / 4398046511104) - ln 2) <= 0.000000000000055.
Proof. interval with (i_prec 120). Qed.

(** The polynomial, without roundings: r + r^2*polynomial r is near the logarithm of 1 + r. r is a multiple of 2^-24. *)
Definition polynomial (r : R) := (((((((((-10226121 / 134217728) * r + (8665731 / 67108864)) * r + (-8890629 / 67108864)) * r + (4758305 / 33554432)) * r + (-2786429 / 16777216)) * r + (6711559 / 33554432)) * r + (-2097287 / 8388608)) * r + (1398101 / 4194304)) * r + (-4194303 / 8388608)).

Lemma method : forall r, (-0.2929) <= r <= 0.41422 -> r = 0 \/ / 16777216 <= Rabs r ->
  Rabs (r + r * r * polynomial r - ln (1 + r)) <= 0.0000000041907 * Rabs (ln (1 + r)).
Proof.
intros r H [-> | N].
{ rewrite Rplus_0_r, ln_1, Rabs_R0. replace (0 + 0 * 0 * polynomial 0 - 0) with 0 by ring. rewrite Rabs_R0. lra. }
destruct (Rle_lt_dec 0 r) as [P | P].
- rewrite (Rabs_pos_eq r P) in N. assert (H' : / 16777216 <= r <= 0.41422) by lra. clear H N P.
  rewrite (Rabs_pos_eq (ln _)) by (assert (L := ln_near r); assert (0 < r / (1 + r)) by (apply Rdiv_lt_0_compat; lra); lra).
  unfold polynomial. apply Rabs_le. split; apply Rminus_le; interval with (i_bisect r, i_taylor r, i_degree 8, i_prec 60, i_depth 40).
- rewrite (Rabs_left r P) in N. assert (H' : (-0.2929) <= r <= - / 16777216) by lra. clear H N P.
  rewrite (Rabs_left (ln _)) by (assert (L := ln_near r); lra).
  unfold polynomial. apply Rabs_le. split; apply Rminus_le; interval with (i_bisect r, i_taylor r, i_degree 8, i_prec 60, i_depth 40).
Qed.

(** What is added to the larger part of the sum, by ranges of f. *)
Lemma near_a : forall x k lo, (-0.2929) <= f x <= (-0.2213) -> f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs k <= 149 -> Rabs lo <= / 131072 ->
  Rabs (rnd (rnd (f x * f x) * q x + rnd (k * (6283079 / 4398046511104) + lo)) -
    (ln (1 + f x) - f x + lo + k * (ln 2 - (22713 / 32768)))) <= 0.425 * / 33554432.
Proof.
intros x k lo. unfold q, t17, t16, t15, t14, t13, t12, t11. generalize (f x). clear x. intros r H N Hk Hl.
assert (M : Rabs (r + r * r * polynomial r - ln (1 + r)) <= 0.0000000041907 * 0.3467).
{ apply Rle_trans with (1 := method r ltac:(lra) N). apply Rmult_le_compat_l. lra. clear - H. interval with (i_prec 60). }
replace (ln (1 + r) - r + lo + k * (ln 2 - (22713 / 32768)))
  with (r * r * polynomial r - (r + r * r * polynomial r - ln (1 + r)) + lo + k * (6283079 / 4398046511104) - k * ((22713 / 32768) + (6283079 / 4398046511104) - ln 2)) by ring.
revert M. generalize (r + r * r * polynomial r - ln (1 + r)). intros m M.
generalize two_parts. generalize ((22713 / 32768) + (6283079 / 4398046511104) - ln 2). intros l L.
step (r * r) (-3)%Z ef Df. step (k * (6283079 / 4398046511104) + lo) (-12)%Z ek Dk.
rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (0)%Z.
rounding_over r (-4)%Z.
match goal with |- Rabs ?A <= _ => replace A
  with (m + r * r * (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6) + ef * (polynomial r + (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6)) + ek + e7 + k * l) by (unfold polynomial; ring) end.
unfold polynomial. interval with (i_bisect r, i_prec 60, i_depth 15).
Qed.

Lemma near_b : forall x k lo, (-0.2213) <= f x <= (-0.1176) -> f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs k <= 149 -> Rabs lo <= / 131072 ->
  Rabs (rnd (rnd (f x * f x) * q x + rnd (k * (6283079 / 4398046511104) + lo)) -
    (ln (1 + f x) - f x + lo + k * (ln 2 - (22713 / 32768)))) <= 0.425 * / 67108864.
Proof.
intros x k lo. unfold q, t17, t16, t15, t14, t13, t12, t11. generalize (f x). clear x. intros r H N Hk Hl.
assert (M : Rabs (r + r * r * polynomial r - ln (1 + r)) <= 0.0000000041907 * 0.2502).
{ apply Rle_trans with (1 := method r ltac:(lra) N). apply Rmult_le_compat_l. lra. clear - H. interval with (i_prec 60). }
replace (ln (1 + r) - r + lo + k * (ln 2 - (22713 / 32768)))
  with (r * r * polynomial r - (r + r * r * polynomial r - ln (1 + r)) + lo + k * (6283079 / 4398046511104) - k * ((22713 / 32768) + (6283079 / 4398046511104) - ln 2)) by ring.
revert M. generalize (r + r * r * polynomial r - ln (1 + r)). intros m M.
generalize two_parts. generalize ((22713 / 32768) + (6283079 / 4398046511104) - ln 2). intros l L.
step (r * r) (-4)%Z ef Df. step (k * (6283079 / 4398046511104) + lo) (-12)%Z ek Dk.
rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (0)%Z.
rounding_over r (-5)%Z.
match goal with |- Rabs ?A <= _ => replace A
  with (m + r * r * (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6) + ef * (polynomial r + (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6)) + ek + e7 + k * l) by (unfold polynomial; ring) end.
unfold polynomial. interval with (i_bisect r, i_prec 60, i_depth 15).
Qed.

Lemma near_c : forall x k lo, 0.1332 <= f x <= 0.2841 -> f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs k <= 149 -> Rabs lo <= / 131072 ->
  Rabs (rnd (rnd (f x * f x) * q x + rnd (k * (6283079 / 4398046511104) + lo)) -
    (ln (1 + f x) - f x + lo + k * (ln 2 - (22713 / 32768)))) <= 0.425 * / 67108864.
Proof.
intros x k lo. unfold q, t17, t16, t15, t14, t13, t12, t11. generalize (f x). clear x. intros r H N Hk Hl.
assert (M : Rabs (r + r * r * polynomial r - ln (1 + r)) <= 0.0000000041907 * 0.2501).
{ apply Rle_trans with (1 := method r ltac:(lra) N). apply Rmult_le_compat_l. lra. clear - H. interval with (i_prec 60). }
replace (ln (1 + r) - r + lo + k * (ln 2 - (22713 / 32768)))
  with (r * r * polynomial r - (r + r * r * polynomial r - ln (1 + r)) + lo + k * (6283079 / 4398046511104) - k * ((22713 / 32768) + (6283079 / 4398046511104) - ln 2)) by ring.
revert M. generalize (r + r * r * polynomial r - ln (1 + r)). intros m M.
generalize two_parts. generalize ((22713 / 32768) + (6283079 / 4398046511104) - ln 2). intros l L.
step (r * r) (-3)%Z ef Df. step (k * (6283079 / 4398046511104) + lo) (-12)%Z ek Dk.
rounding (-3)%Z. rounding (-3)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-1)%Z. rounding (-1)%Z.
rounding_over r (-4)%Z.
match goal with |- Rabs ?A <= _ => replace A
  with (m + r * r * (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6) + ef * (polynomial r + (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6)) + ek + e7 + k * l) by (unfold polynomial; ring) end.
unfold polynomial. interval with (i_bisect r, i_prec 60, i_depth 15).
Qed.

Lemma near_d : forall x k lo, 0.2841 <= f x <= 0.41422 -> f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs k <= 149 -> Rabs lo <= / 131072 ->
  Rabs (rnd (rnd (f x * f x) * q x + rnd (k * (6283079 / 4398046511104) + lo)) -
    (ln (1 + f x) - f x + lo + k * (ln 2 - (22713 / 32768)))) <= 0.425 * / 33554432.
Proof.
intros x k lo. unfold q, t17, t16, t15, t14, t13, t12, t11. generalize (f x). clear x. intros r H N Hk Hl.
assert (M : Rabs (r + r * r * polynomial r - ln (1 + r)) <= 0.0000000041907 * 0.3467).
{ apply Rle_trans with (1 := method r ltac:(lra) N). apply Rmult_le_compat_l. lra. clear - H. interval with (i_prec 60). }
replace (ln (1 + r) - r + lo + k * (ln 2 - (22713 / 32768)))
  with (r * r * polynomial r - (r + r * r * polynomial r - ln (1 + r)) + lo + k * (6283079 / 4398046511104) - k * ((22713 / 32768) + (6283079 / 4398046511104) - ln 2)) by ring.
revert M. generalize (r + r * r * polynomial r - ln (1 + r)). intros m M.
generalize two_parts. generalize ((22713 / 32768) + (6283079 / 4398046511104) - ln 2). intros l L.
step (r * r) (-2)%Z ef Df. step (k * (6283079 / 4398046511104) + lo) (-12)%Z ek Dk.
rounding (-3)%Z. rounding (-3)%Z. rounding (-3)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-1)%Z. rounding (-1)%Z.
rounding_over r (-3)%Z.
match goal with |- Rabs ?A <= _ => replace A
  with (m + r * r * (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6) + ef * (polynomial r + (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6)) + ek + e7 + k * l) by (unfold polynomial; ring) end.
unfold polynomial. interval with (i_bisect r, i_prec 60, i_depth 15).
Qed.

Lemma near_e : forall x k lo, (-0.1176) <= f x <= 0.1332 -> f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs k <= 149 -> Rabs lo <= / 131072 ->
  Rabs (rnd (rnd (f x * f x) * q x + rnd (k * (6283079 / 4398046511104) + lo)) -
    (ln (1 + f x) - f x + lo + k * (ln 2 - (22713 / 32768)))) <= 0.425 * / 33554432.
Proof.
intros x k lo. unfold q, t17, t16, t15, t14, t13, t12, t11. generalize (f x). clear x. intros r H N Hk Hl.
assert (M : Rabs (r + r * r * polynomial r - ln (1 + r)) <= 0.0000000041907 * 0.1252).
{ apply Rle_trans with (1 := method r ltac:(lra) N). apply Rmult_le_compat_l. lra. clear - H. interval with (i_prec 60). }
replace (ln (1 + r) - r + lo + k * (ln 2 - (22713 / 32768)))
  with (r * r * polynomial r - (r + r * r * polynomial r - ln (1 + r)) + lo + k * (6283079 / 4398046511104) - k * ((22713 / 32768) + (6283079 / 4398046511104) - ln 2)) by ring.
revert M. generalize (r + r * r * polynomial r - ln (1 + r)). intros m M.
generalize two_parts. generalize ((22713 / 32768) + (6283079 / 4398046511104) - ln 2). intros l L.
step (r * r) (-5)%Z ef Df. step (k * (6283079 / 4398046511104) + lo) (-12)%Z ek Dk.
rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (0)%Z.
rounding_over r (-5)%Z.
match goal with |- Rabs ?A <= _ => replace A
  with (m + r * r * (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6) + ef * (polynomial r + (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6)) + ek + e7 + k * l) by (unfold polynomial; ring) end.
unfold polynomial. interval with (i_bisect r, i_prec 60, i_depth 15).
Qed.

Lemma near : forall x k lo, (-0.2929) <= f x <= 0.41422 -> f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs k <= 149 -> Rabs lo <= / 131072 ->
  Rabs (rnd (rnd (f x * f x) * q x + rnd (k * (6283079 / 4398046511104) + lo)) -
    (ln (1 + f x) - f x + lo + k * (ln 2 - (22713 / 32768)))) <= 0.425 * / 33554432.
Proof.
intros x k lo H N Hk Hl.
destruct (Rle_lt_dec (-0.2929) (f x)) as [La | La]; [destruct (Rle_lt_dec (f x) (-0.2213)) as [Ha | Ha]|];
  try (apply Rle_trans with (1 := near_a x k lo ltac:(lra) N Hk Hl); lra).
destruct (Rle_lt_dec (-0.2213) (f x)) as [Lb | Lb]; [destruct (Rle_lt_dec (f x) (-0.1176)) as [Hb | Hb]|];
  try (apply Rle_trans with (1 := near_b x k lo ltac:(lra) N Hk Hl); lra).
destruct (Rle_lt_dec 0.1332 (f x)) as [Lc | Lc]; [destruct (Rle_lt_dec (f x) 0.2841) as [Hc | Hc]|];
  try (apply Rle_trans with (1 := near_c x k lo ltac:(lra) N Hk Hl); lra).
destruct (Rle_lt_dec 0.2841 (f x)) as [Ld | Ld]; [destruct (Rle_lt_dec (f x) 0.41422) as [Hd | Hd]|];
  try (apply Rle_trans with (1 := near_d x k lo ltac:(lra) N Hk Hl); lra).
destruct (Rle_lt_dec (-0.1176) (f x)) as [Le | Le]; [destruct (Rle_lt_dec (f x) 0.1332) as [He | He]|];
  try (apply Rle_trans with (1 := near_e x k lo ltac:(lra) N Hk Hl); lra).
all: exfalso; lra.
Qed.

(** Near 1, where k is 0, the error is relative. *)
Lemma chain : forall x, (-0.1176) <= f x <= 0.1332 -> Rabs (q x - polynomial (f x)) <= 0.000000036.
Proof.
intros x. unfold q, t17, t16, t15, t14, t13, t12, t11. generalize (f x). clear x. intros r H.
rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (0)%Z.
match goal with |- Rabs ?A <= _ => replace A with (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6) by (unfold polynomial; ring) end.
interval with (i_prec 60).
Qed.

Lemma near_one : forall x, (-0.1176) <= f x <= 0.1332 -> / 16777216 <= Rabs (f x) ->
  Rabs (rnd (rnd (f x * f x) * q x + 0) - (ln (1 + f x) - f x)) <= 0.425 / 16777216 * Rabs (ln (1 + f x)).
Proof.
intros x H N. assert (C := chain x H). revert H N C.
generalize (q x) (f x). clear x. intros q r H N C.
assert (M := method r ltac:(lra) (or_intror N)).
assert (exists c, q = polynomial r + c /\ Rabs c <= 0.000000036) as [c [-> D]] by (exists (q - polynomial r); split; [ring | exact C]).
assert (P : 0.4 <= Rabs (polynomial r + c)) by (clear - H D; unfold polynomial; interval with (i_bisect r, i_prec 60)).
assert (S : / 281474976710656 <= Rabs (r * r)) by (rewrite Rabs_mult; clear - N; nra).
destruct (rnd_normal (r * r)) as [d1 [-> D1]]. { apply Rle_trans with (2 := S). powers. lra. }
assert (S2 : / 1125899906842624 <= Rabs (r * r * (1 + d1) * (polynomial r + c) + 0)).
{ rewrite Rplus_0_r, (Rabs_mult (r * r * (1 + d1))), (Rabs_mult (r * r)). assert (0.9 <= Rabs (1 + d1)) by (clear - D1; interval with (i_prec 60)).
  apply Rle_trans with (/ 281474976710656 * 0.9 * 0.4). lra.
  apply Rmult_le_compat; [lra | lra | apply Rmult_le_compat; lra | exact P]. }
destruct (rnd_normal (r * r * (1 + d1) * (polynomial r + c) + 0)) as [d2 [-> D2]]. { apply Rle_trans with (2 := S2). powers. lra. }
set (W := r * ((1 + d1) * (polynomial r + c) * (1 + d2) - polynomial r)).
assert (HW : Rabs W <= 0.000000017).
{ unfold W. replace (_ - polynomial r) with (polynomial r * (d1 + d2 + d1 * d2) + c * (1 + d1) * (1 + d2)) by ring.
  clear - H D D1 D2. unfold polynomial. interval with (i_prec 60). }
replace ((r * r * (1 + d1) * (polynomial r + c) + 0) * (1 + d2) - (ln (1 + r) - r))
  with (r * W + (r + r * r * polynomial r - ln (1 + r))) by (unfold W; ring).
assert (B : Rabs r <= 1.14 * Rabs (ln (1 + r))).
{ assert (L := ln_near r ltac:(lra)). destruct (Rle_lt_dec 0 r) as [Q | Q].
  - assert (r / 1.14 <= r / (1 + r)). { apply Rmult_le_compat_l. exact Q. apply Rinv_le_contravar; lra. }
    assert (0 <= r / 1.14) by lra. rewrite !Rabs_pos_eq by lra. lra.
  - rewrite !Rabs_left by lra. lra. }
apply Rle_trans with (1 := Rabs_triang _ _). rewrite Rabs_mult.
assert (Rabs r * Rabs W <= 1.14 * Rabs (ln (1 + r)) * 0.000000017) by (apply Rmult_le_compat; try apply Rabs_pos; assumption).
assert (0 <= Rabs (ln (1 + r))) by apply Rabs_pos. lra.
Qed.

(** For every positive binary32 x, log is within 0.925 ulp of the natural logarithm.

    Speaks of: log 82df19c88067d6e926c040e4f46e934a8834a6c0dffa44fa1c42d45b6e9cb2be

    Rests on it: fn.LogFunction. *)
Theorem log_ulps : forall x special, F32 x -> 0 < x < bpow radix2 128 ->
  Rabs (log_f32 x special - ln x) <= 0.925 * ulp32 (ln x).
Proof.
intros x special F H.
assert (R : exists J K, f x = IZR J * bpow radix2 (-24) /\ (3474675 - 2 ^ 23 <= J < 2 * 3474675)%Z /\ kf x = IZR K /\ (-149 <= K <= 128)%Z /\
  ln x = IZR K * ln 2 + ln (1 + f x)) by exact (reduce_log x 3474675 F H ltac:(lia)).
destruct R as [J [K [Ef [HJ [Ek [HK EL]]]]]].
assert (S : hi x + lo x = IZR K * (22713 / 32768) + f x /\ Rabs (lo x) <= / 131072 /\ (K = 0%Z -> hi x = f x)).
{ unfold lo, t18, hi, a. rewrite Ek. apply (sum_in_two J K 22713 (f x) Ef); lia. }
destruct S as [S [Hlo S0]].
assert (Y : log_f32 x special = rnd (hi x + rnd (rnd (f x * f x) * q x + rnd (IZR K * (6283079 / 4398046511104) + lo x)))).
{ unfold log_f32, t24, t1, t23, t2. rewrite Rlt_bool_true by lra.
  unfold y, t20, t10, t19. now rewrite Ek. }
assert (Hf : (-0.2929) <= f x <= 0.41422).
{ rewrite Ef. powers. destruct HJ as [J1 J2]. apply IZR_le in J1. apply IZR_lt in J2. rewrite minus_IZR in J1. rewrite mult_IZR in J2.
  change (IZR (2 ^ 23)) with 8388608 in J1. lra. }
assert (Nf : f x = 0 \/ / 16777216 <= Rabs (f x)).
{ destruct (Z.eq_dec J 0) as [-> | NJ]. left. rewrite Ef. ring. right.
  rewrite Ef, Rabs_mult, (Rabs_pos_eq (bpow _ _)), <- abs_IZR by apply bpow_ge_0.
  assert (1 <= IZR (Z.abs J)) by (apply IZR_le; lia). powers. lra. }
assert (Hk : Rabs (IZR K) <= 149) by (rewrite <- abs_IZR; apply IZR_le; lia).
replace 0.925 with (/ 2 + 0.425) by lra. rewrite Y.
assert (D : forall z B, Rabs (z - (ln (1 + f x) - f x + lo x + IZR K * (ln 2 - (22713 / 32768)))) <= B -> Rabs (hi x + z - ln x) <= B).
{ intros z B HB. rewrite EL. replace (hi x) with (IZR K * (22713 / 32768) + f x - lo x) by (rewrite <- S; ring).
  match goal with |- Rabs ?A <= _ => replace A with (z - (ln (1 + f x) - f x + lo x + IZR K * (ln 2 - (22713 / 32768)))) by ring end. exact HB. }
assert (Large : forall b, bpow radix2 b <= Rabs (ln x) -> Rabs (rnd (rnd (f x * f x) * q x + rnd (IZR K * (6283079 / 4398046511104) + lo x)) -
    (ln (1 + f x) - f x + lo x + IZR K * (ln 2 - (22713 / 32768)))) <= 0.425 * bpow radix2 (b - 23) ->
  Rabs (rnd (hi x + rnd (rnd (f x * f x) * q x + rnd (IZR K * (6283079 / 4398046511104) + lo x))) - ln x) <= (/ 2 + 0.425) * ulp32 (ln x)).
{ intros b L E. apply rnd_ulps.
  - intros Z. rewrite Z, Rabs_R0 in L. generalize (bpow_gt_0 radix2 b). lra.
  - lra.
  - apply D. apply Rle_trans with (1 := E). apply Rmult_le_compat_l. lra. now apply ulp32_ge. }
destruct (Z.eq_dec K 0) as [K0 | K0].
- rewrite K0, Rmult_0_l, Rplus_0_l in EL.
  destruct Nf as [Z | Nz].
  { assert (lo0 : lo x = 0) by (rewrite (S0 K0), K0 in S; lra).
    assert (E0 : rnd 0 = 0) by (apply round_0; auto with typeclass_instances).
    rewrite EL, (S0 K0), lo0, K0, Z.
    rewrite !Rmult_0_l, !Rplus_0_l, E0, Rmult_0_l, Rplus_0_l, E0, E0, Rplus_0_r, ln_1, Rminus_0_r, Rabs_R0.
    apply Rmult_le_pos. lra. apply Rle_trans with (2 := ulp32_least 0). apply bpow_ge_0. }
  assert (Small : (-0.1176) <= f x <= 0.1332 -> Rabs (rnd (hi x + rnd (rnd (f x * f x) * q x + rnd (IZR K * (6283079 / 4398046511104) + lo x))) - ln x) <= (/ 2 + 0.425) * ulp32 (ln x)).
  { intros HS. assert (lo0 : lo x = 0) by (rewrite (S0 K0), K0 in S; lra).
    rewrite (S0 K0), EL, lo0, K0, Rmult_0_l, Rplus_0_l, round_0 by auto with typeclass_instances.
    replace (/ 2 + 0.425) with (/ 2 + 0.425 / 16777216 * 16777216) by lra.
    assert (N1 := near_one x HS Nz). apply rnd_relative; [| lra |].
    - intros Z. assert (L := ln_near (f x) ltac:(lra)). rewrite Z in L. rewrite Rabs_pos_eq in Nz by lra.
      assert (0 < f x / (1 + f x)) by (apply Rdiv_lt_0_compat; lra). lra.
    - match goal with |- Rabs ?A <= _ => replace A with (rnd (rnd (f x * f x) * q x + 0) - (ln (1 + f x) - f x)) by ring end. exact N1. }
  (destruct (Rle_lt_dec (-0.2929) (f x)) as [La | La]; [destruct (Rle_lt_dec (f x) (-0.2213)) as [Ha | Ha]|]);
    try (apply (Large (-2)%Z); [rewrite EL; powers; interval with (i_prec 60) | change (bpow radix2 (-2 - 23)) with (/ 33554432); apply near_a; auto; lra]);
  (destruct (Rle_lt_dec (-0.2213) (f x)) as [Lb | Lb]; [destruct (Rle_lt_dec (f x) (-0.1176)) as [Hb | Hb]|]);
    try (apply (Large (-3)%Z); [rewrite EL; powers; interval with (i_prec 60) | change (bpow radix2 (-3 - 23)) with (/ 67108864); apply near_b; auto; lra]);
  (destruct (Rle_lt_dec 0.1332 (f x)) as [Lc | Lc]; [destruct (Rle_lt_dec (f x) 0.2841) as [Hc | Hc]|]);
    try (apply (Large (-3)%Z); [rewrite EL; powers; interval with (i_prec 60) | change (bpow radix2 (-3 - 23)) with (/ 67108864); apply near_c; auto; lra]);
  (destruct (Rle_lt_dec 0.2841 (f x)) as [Ld | Ld]; [destruct (Rle_lt_dec (f x) 0.41422) as [Hd | Hd]|]);
    try (apply (Large (-2)%Z); [rewrite EL; powers; interval with (i_prec 60) | change (bpow radix2 (-2 - 23)) with (/ 33554432); apply near_d; auto; lra]);
  try (apply Small; lra); exfalso; lra.
- assert (T : bpow radix2 (-2) <= Rabs (ln x)).
  { rewrite EL. assert (L1 : Rabs (ln (1 + f x)) <= 0.35) by (clear - Hf; interval with (i_prec 60)).
    assert (L2 : 0.69 <= ln 2) by interval with (i_prec 60).
    assert (L3 : 0.69 <= Rabs (IZR K * ln 2)).
    { rewrite Rabs_mult, (Rabs_pos_eq (ln 2)), <- abs_IZR by lra. assert (1 <= IZR (Z.abs K)) by (apply IZR_le; lia). nra. }
    powers. generalize (Rabs_triang_inv (IZR K * ln 2) (- ln (1 + f x))). rewrite Rabs_Ropp.
    replace (IZR K * ln 2 - - ln (1 + f x)) with (IZR K * ln 2 + ln (1 + f x)) by ring. lra. }
  apply (Large (-2)%Z). exact T. change (bpow radix2 (-2 - 23)) with (/ 33554432). now apply near.
Qed.
