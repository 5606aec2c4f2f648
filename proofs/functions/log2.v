(** * log2

    The largest error of the function log2 in ulps, from its nodes. Written by tokitai prove log2 --emit; do not edit. *)

From Coq Require Import Reals ZArith Lia Lra.
From Flocq Require Import Core.
From Interval Require Import Tactic.
From Tokitai Require Import functions.Binary32 functions.Patterns.
Open Scope R_scope.

(* function log2(x): log2 within 1.0 ulp for x > 0
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
  t7 = shl(k, 23i)
  t8 = isub(t4, t7)
  t9 = float(t8)
  f = sub(t9, 1)
  g = mul(f, 0x1.715476p+00)
  hi = add(kf, g)
  t10 = mul(f, f)
  t11 = fma(-0x1.c39b24p-04, f, 0x1.7f284p-03)
  t12 = fma(t11, f, -0x1.87f80cp-03)
  t13 = fma(t12, f, 0x1.a2c9dap-03)
  t14 = fma(t13, f, -0x1.eaa248p-03)
  t15 = fma(t14, f, 0x1.277f44p-02)
  t16 = fma(t15, f, -0x1.715afep-02)
  t17 = fma(t16, f, 0x1.ec7094p-02)
  q = fma(t17, f, -0x1.71547p-01)
  t18 = sub(kf, hi)
  lo = add(t18, g)
  t19 = neg(g)
  t20 = fma(f, 0x1.715476p+00, t19)
  rest = fma(f, 0x1.4ae0cp-26, t20)
  t21 = add(lo, rest)
  t22 = fma(t10, q, t21)
  y = add(hi, t22)
  t23 = equal(x, 0)
  t24 = select(t23, -Inf, NaN)
  t25 = select(t2, y, t24)
  t26 = select(t1, t25, x)
  return t26
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
Definition t7 := shl k (23)%Z.
Definition t8 := isub t4 t7.
Definition t9 := float t8.
Definition f := rnd (t9 - 1).
Definition g := rnd (f * (12102203 / 8388608)).
Definition hi := rnd (kf + g).
Definition t10 := rnd (f * f).
Definition t11 := rnd ((-7399113 / 67108864) * f + (392353 / 2097152)).
Definition t12 := rnd (t11 * f + (-6422019 / 33554432)).
Definition t13 := rnd (t12 * f + (13722861 / 67108864)).
Definition t14 := rnd (t13 * f + (-4019273 / 16777216)).
Definition t15 := rnd (t14 * f + (4841425 / 16777216)).
Definition t16 := rnd (t15 * f + (-12103039 / 33554432)).
Definition t17 := rnd (t16 * f + (8068133 / 16777216)).
Definition q := rnd (t17 * f + (-1512775 / 2097152)).
Definition t18 := rnd (kf - hi).
Definition lo := rnd (t18 + g).
Definition t19 := - g.
Definition t20 := rnd (f * (12102203 / 8388608) + t19).
Definition rest := rnd (f * (338819 / 17592186044416) + t20).
Definition t21 := rnd (lo + rest).
Definition t22 := rnd (t10 * q + t21).
Definition y := rnd (hi + t22).
Definition t23 := Req_bool x 0.
Definition t24 := if t23 then special else special.
Definition t25 := if t2 then y else t24.
Definition t26 := if t1 then t25 else x.
Definition log2_f32 := t26.
End Nodes.

(** The polynomial, without roundings: r*log2(e) + r^2*polynomial r is near the binary logarithm of 1 + r. r is a multiple of 2^-24. *)
Definition polynomial (r : R) := (((((((((-7399113 / 67108864) * r + (392353 / 2097152)) * r + (-6422019 / 33554432)) * r + (13722861 / 67108864)) * r + (-4019273 / 16777216)) * r + (4841425 / 16777216)) * r + (-12103039 / 33554432)) * r + (8068133 / 16777216)) * r + (-1512775 / 2097152)).
Definition log2e := (12102203 / 8388608) + (338819 / 17592186044416).
Definition log2_1p (r : R) := ln (1 + r) / ln 2.

Lemma method_ln : forall r, (-0.2929) <= r <= 0.41422 -> / 16777216 <= Rabs r ->
  Rabs ((r * log2e + r * r * polynomial r) * ln 2 - ln (1 + r)) <= 0.0000000046178 * Rabs (ln (1 + r)).
Proof.
intros r H N. unfold log2e.
destruct (Rle_lt_dec 0 r) as [P | P].
- rewrite (Rabs_pos_eq r P) in N. assert (H' : / 16777216 <= r <= 0.41422) by lra. clear H N P.
  rewrite (Rabs_pos_eq (ln _)) by (assert (L := ln_near r); assert (0 < r / (1 + r)) by (apply Rdiv_lt_0_compat; lra); lra).
  unfold polynomial. apply Rabs_le. split; apply Rminus_le; interval with (i_bisect r, i_taylor r, i_degree 8, i_prec 60, i_depth 40).
- rewrite (Rabs_left r P) in N. assert (H' : (-0.2929) <= r <= - / 16777216) by lra. clear H N P.
  rewrite (Rabs_left (ln _)) by (assert (L := ln_near r); lra).
  unfold polynomial. apply Rabs_le. split; apply Rminus_le; interval with (i_bisect r, i_taylor r, i_degree 8, i_prec 60, i_depth 40).
Qed.

Lemma method : forall r, (-0.2929) <= r <= 0.41422 -> r = 0 \/ / 16777216 <= Rabs r ->
  Rabs (r * log2e + r * r * polynomial r - log2_1p r) <= 0.0000000046178 * Rabs (log2_1p r).
Proof.
intros r H N. unfold log2_1p. assert (L2 : 0.69 <= ln 2) by interval with (i_prec 60). destruct N as [-> | N].
{ rewrite Rplus_0_r, ln_1. replace (0 * log2e + 0 * 0 * polynomial 0 - 0 / ln 2) with 0 by (field; lra).
  replace (0 / ln 2) with 0 by (field; lra). rewrite Rabs_R0. lra. }
assert (M := method_ln r H N). unfold Rdiv. rewrite Rabs_mult, <- Rmult_assoc.
replace (_ - _) with (((r * log2e + r * r * polynomial r) * ln 2 - ln (1 + r)) * / ln 2) by (field; lra).
rewrite Rabs_mult. apply Rmult_le_compat_r. apply Rabs_pos. exact M.
Qed.

(** f*log2(e) in two parts. *)
Lemma parts : forall x, f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs (g x + rest x - f x * log2e) <= Rabs (f x) * / 35184372088832 /\ Rabs (rest x) <= Rabs (f x) * / 4194304.
Proof. intros x N. refine (product_in_two (f x) (12102203 / 8388608) (338819 / 17592186044416) N _ _); apply Rabs_le; lra. Qed.

(** What is added to the larger part of the sum, by ranges of f. *)
Lemma near_a : forall x lo, (-0.2929) <= f x <= (-0.1592) -> f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs lo <= / 131072 ->
  Rabs (rnd (rnd (f x * f x) * q x + rnd (lo + rest x)) - (log2_1p (f x) - g x + lo)) <= 0.579 * / 33554432.
Proof.
intros x lo H N Hl. destruct (parts x N) as [P PR]. revert H N P PR.
unfold q, t17, t16, t15, t14, t13, t12, t11. generalize (f x) (g x) (rest x). clear x. intros r g s H N P PR.
assert (M : Rabs (r * log2e + r * r * polynomial r - log2_1p r) <= 0.0000000046178 * 0.5001).
{ apply Rle_trans with (1 := method r ltac:(lra) N). apply Rmult_le_compat_l. lra. clear - H. unfold log2_1p. interval with (i_prec 60). }
replace (log2_1p r - g + lo)
  with (r * r * polynomial r - (r * log2e + r * r * polynomial r - log2_1p r) + s + lo - (g + s - r * log2e)) by ring.
revert M P. generalize (r * log2e + r * r * polynomial r - log2_1p r) (g + s - r * log2e). intros m p M P.
assert (P' : Rabs p <= / 35184372088832) by (assert (Rabs r <= 1) by (apply Rabs_le; lra); lra).
assert (S' : Rabs s <= / 4194304) by (assert (Rabs r <= 1) by (apply Rabs_le; lra); lra). clear P PR.
step (r * r) (-3)%Z ef Df. step (lo + s) (-16)%Z ek Dk.
rounding (-2)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (0)%Z. rounding (0)%Z.
rounding_over r (-3)%Z.
match goal with |- Rabs ?A <= _ => replace A
  with (m + r * r * (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6) + ef * (polynomial r + (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6)) + ek + e7 + p) by (unfold polynomial; ring) end.
unfold polynomial. interval with (i_bisect r, i_prec 60, i_depth 15).
Qed.

Lemma near_b : forall x lo, (-0.1592) <= f x <= (-0.0830) -> f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs lo <= / 131072 ->
  Rabs (rnd (rnd (f x * f x) * q x + rnd (lo + rest x)) - (log2_1p (f x) - g x + lo)) <= 0.579 * / 67108864.
Proof.
intros x lo H N Hl. destruct (parts x N) as [P PR]. revert H N P PR.
unfold q, t17, t16, t15, t14, t13, t12, t11. generalize (f x) (g x) (rest x). clear x. intros r g s H N P PR.
assert (M : Rabs (r * log2e + r * r * polynomial r - log2_1p r) <= 0.0000000046178 * 0.2502).
{ apply Rle_trans with (1 := method r ltac:(lra) N). apply Rmult_le_compat_l. lra. clear - H. unfold log2_1p. interval with (i_prec 60). }
replace (log2_1p r - g + lo)
  with (r * r * polynomial r - (r * log2e + r * r * polynomial r - log2_1p r) + s + lo - (g + s - r * log2e)) by ring.
revert M P. generalize (r * log2e + r * r * polynomial r - log2_1p r) (g + s - r * log2e). intros m p M P.
assert (P' : Rabs p <= / 35184372088832) by (assert (Rabs r <= 1) by (apply Rabs_le; lra); lra).
assert (S' : Rabs s <= / 4194304) by (assert (Rabs r <= 1) by (apply Rabs_le; lra); lra). clear P PR.
step (r * r) (-5)%Z ef Df. step (lo + s) (-16)%Z ek Dk.
rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (0)%Z. rounding (0)%Z.
rounding_over r (-5)%Z.
match goal with |- Rabs ?A <= _ => replace A
  with (m + r * r * (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6) + ef * (polynomial r + (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6)) + ek + e7 + p) by (unfold polynomial; ring) end.
unfold polynomial. interval with (i_bisect r, i_prec 60, i_depth 15).
Qed.

Lemma near_c : forall x lo, 0.0906 <= f x <= 0.1893 -> f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs lo <= / 131072 ->
  Rabs (rnd (rnd (f x * f x) * q x + rnd (lo + rest x)) - (log2_1p (f x) - g x + lo)) <= 0.579 * / 67108864.
Proof.
intros x lo H N Hl. destruct (parts x N) as [P PR]. revert H N P PR.
unfold q, t17, t16, t15, t14, t13, t12, t11. generalize (f x) (g x) (rest x). clear x. intros r g s H N P PR.
assert (M : Rabs (r * log2e + r * r * polynomial r - log2_1p r) <= 0.0000000046178 * 0.2502).
{ apply Rle_trans with (1 := method r ltac:(lra) N). apply Rmult_le_compat_l. lra. clear - H. unfold log2_1p. interval with (i_prec 60). }
replace (log2_1p r - g + lo)
  with (r * r * polynomial r - (r * log2e + r * r * polynomial r - log2_1p r) + s + lo - (g + s - r * log2e)) by ring.
revert M P. generalize (r * log2e + r * r * polynomial r - log2_1p r) (g + s - r * log2e). intros m p M P.
assert (P' : Rabs p <= / 35184372088832) by (assert (Rabs r <= 1) by (apply Rabs_le; lra); lra).
assert (S' : Rabs s <= / 4194304) by (assert (Rabs r <= 1) by (apply Rabs_le; lra); lra). clear P PR.
step (r * r) (-4)%Z ef Df. step (lo + s) (-16)%Z ek Dk.
rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (0)%Z.
rounding_over r (-5)%Z.
match goal with |- Rabs ?A <= _ => replace A
  with (m + r * r * (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6) + ef * (polynomial r + (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6)) + ek + e7 + p) by (unfold polynomial; ring) end.
unfold polynomial. interval with (i_bisect r, i_prec 60, i_depth 15).
Qed.

Lemma near_d : forall x lo, 0.1893 <= f x <= 0.41422 -> f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs lo <= / 131072 ->
  Rabs (rnd (rnd (f x * f x) * q x + rnd (lo + rest x)) - (log2_1p (f x) - g x + lo)) <= 0.579 * / 33554432.
Proof.
intros x lo H N Hl. destruct (parts x N) as [P PR]. revert H N P PR.
unfold q, t17, t16, t15, t14, t13, t12, t11. generalize (f x) (g x) (rest x). clear x. intros r g s H N P PR.
assert (M : Rabs (r * log2e + r * r * polynomial r - log2_1p r) <= 0.0000000046178 * 0.5001).
{ apply Rle_trans with (1 := method r ltac:(lra) N). apply Rmult_le_compat_l. lra. clear - H. unfold log2_1p. interval with (i_prec 60). }
replace (log2_1p r - g + lo)
  with (r * r * polynomial r - (r * log2e + r * r * polynomial r - log2_1p r) + s + lo - (g + s - r * log2e)) by ring.
revert M P. generalize (r * log2e + r * r * polynomial r - log2_1p r) (g + s - r * log2e). intros m p M P.
assert (P' : Rabs p <= / 35184372088832) by (assert (Rabs r <= 1) by (apply Rabs_le; lra); lra).
assert (S' : Rabs s <= / 4194304) by (assert (Rabs r <= 1) by (apply Rabs_le; lra); lra). clear P PR.
step (r * r) (-2)%Z ef Df. step (lo + s) (-16)%Z ek Dk.
rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (0)%Z.
rounding_over r (-3)%Z.
match goal with |- Rabs ?A <= _ => replace A
  with (m + r * r * (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6) + ef * (polynomial r + (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6)) + ek + e7 + p) by (unfold polynomial; ring) end.
unfold polynomial. interval with (i_bisect r, i_prec 60, i_depth 15).
Qed.

Lemma near_e : forall x lo, (-0.0830) <= f x <= 0.0906 -> f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs lo <= / 131072 ->
  Rabs (rnd (rnd (f x * f x) * q x + rnd (lo + rest x)) - (log2_1p (f x) - g x + lo)) <= 0.579 * / 33554432.
Proof.
intros x lo H N Hl. destruct (parts x N) as [P PR]. revert H N P PR.
unfold q, t17, t16, t15, t14, t13, t12, t11. generalize (f x) (g x) (rest x). clear x. intros r g s H N P PR.
assert (M : Rabs (r * log2e + r * r * polynomial r - log2_1p r) <= 0.0000000046178 * 0.1252).
{ apply Rle_trans with (1 := method r ltac:(lra) N). apply Rmult_le_compat_l. lra. clear - H. unfold log2_1p. interval with (i_prec 60). }
replace (log2_1p r - g + lo)
  with (r * r * polynomial r - (r * log2e + r * r * polynomial r - log2_1p r) + s + lo - (g + s - r * log2e)) by ring.
revert M P. generalize (r * log2e + r * r * polynomial r - log2_1p r) (g + s - r * log2e). intros m p M P.
assert (P' : Rabs p <= / 35184372088832) by (assert (Rabs r <= 1) by (apply Rabs_le; lra); lra).
assert (S' : Rabs s <= / 4194304) by (assert (Rabs r <= 1) by (apply Rabs_le; lra); lra). clear P PR.
step (r * r) (-6)%Z ef Df. step (lo + s) (-16)%Z ek Dk.
rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (0)%Z. rounding (0)%Z.
rounding_over r (-6)%Z.
match goal with |- Rabs ?A <= _ => replace A
  with (m + r * r * (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6) + ef * (polynomial r + (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6)) + ek + e7 + p) by (unfold polynomial; ring) end.
unfold polynomial. interval with (i_bisect r, i_prec 60, i_depth 15).
Qed.

Lemma near : forall x lo, (-0.2929) <= f x <= 0.41422 -> f x = 0 \/ / 16777216 <= Rabs (f x) ->
  Rabs lo <= / 131072 ->
  Rabs (rnd (rnd (f x * f x) * q x + rnd (lo + rest x)) - (log2_1p (f x) - g x + lo)) <= 0.579 * / 33554432.
Proof.
intros x lo H N Hl.
destruct (Rle_lt_dec (-0.2929) (f x)) as [La | La]; [destruct (Rle_lt_dec (f x) (-0.1592)) as [Ha | Ha]|];
  try (apply Rle_trans with (1 := near_a x lo ltac:(lra) N Hl); lra).
destruct (Rle_lt_dec (-0.1592) (f x)) as [Lb | Lb]; [destruct (Rle_lt_dec (f x) (-0.0830)) as [Hb | Hb]|];
  try (apply Rle_trans with (1 := near_b x lo ltac:(lra) N Hl); lra).
destruct (Rle_lt_dec 0.0906 (f x)) as [Lc | Lc]; [destruct (Rle_lt_dec (f x) 0.1893) as [Hc | Hc]|];
  try (apply Rle_trans with (1 := near_c x lo ltac:(lra) N Hl); lra).
destruct (Rle_lt_dec 0.1893 (f x)) as [Ld | Ld]; [destruct (Rle_lt_dec (f x) 0.41422) as [Hd | Hd]|];
  try (apply Rle_trans with (1 := near_d x lo ltac:(lra) N Hl); lra).
destruct (Rle_lt_dec (-0.0830) (f x)) as [Le | Le]; [destruct (Rle_lt_dec (f x) 0.0906) as [He | He]|];
  try (apply Rle_trans with (1 := near_e x lo ltac:(lra) N Hl); lra).
all: exfalso; lra.
Qed.

(** Near 1, where k is 0, the error is relative. *)
Lemma chain : forall x, (-0.0830) <= f x <= 0.0906 -> Rabs (q x - polynomial (f x)) <= 0.000000036.
Proof.
intros x. unfold q, t17, t16, t15, t14, t13, t12, t11. generalize (f x). clear x. intros r H.
rounding (-2)%Z. rounding (-2)%Z. rounding (-2)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (-1)%Z. rounding (0)%Z. rounding (0)%Z.
match goal with |- Rabs ?A <= _ => replace A with (((((((e * r + e0) * r + e1) * r + e2) * r + e3) * r + e4) * r + e5) * r + e6) by (unfold polynomial; ring) end.
interval with (i_prec 60).
Qed.

Lemma near_one : forall x, (-0.0830) <= f x <= 0.0906 -> / 16777216 <= Rabs (f x) ->
  Rabs (rnd (rnd (f x * f x) * q x + rest x) - (log2_1p (f x) - g x)) <= 0.45 / 16777216 * Rabs (log2_1p (f x)).
Proof.
intros x H N. assert (C := chain x H). destruct (parts x (or_intror N)) as [P PR]. revert H N C P PR.
generalize (q x) (f x) (g x) (rest x). clear x. intros q r g s H N C P PR.
assert (M := method r ltac:(lra) (or_intror N)).
assert (exists c, q = polynomial r + c /\ Rabs c <= 0.000000036) as [c [-> D]] by (exists (q - polynomial r); split; [ring | exact C]).
assert (S : / 281474976710656 <= Rabs (r * r)) by (rewrite Rabs_mult; clear - N; nra).
destruct (rnd_normal (r * r)) as [d1 [-> D1]]. { apply Rle_trans with (2 := S). powers. lra. }
destruct (rnd_mixed (r * r * (1 + d1) * (polynomial r + c) + s)) as [e [-> De]].
assert (T : bpow radix2 (-150) <= Rabs r * / 1208925819614629174706176).
{ apply Rle_trans with (/ 16777216 * / 1208925819614629174706176); [|apply Rmult_le_compat_r; lra].
  apply Rle_trans with (bpow radix2 (-104)). apply bpow_le; lia. powers. lra. }
set (W := r * ((1 + d1) * (polynomial r + c) - polynomial r)).
set (V := r * ((1 + d1) * (polynomial r + c))).
assert (HW : Rabs W + Rabs V * / 16777216 <= 0.0000000118).
{ unfold W, V. replace ((1 + d1) * (polynomial r + c) - polynomial r) with (polynomial r * d1 + c * (1 + d1)) by ring.
  clear - H D D1. unfold polynomial. interval with (i_prec 60). }
replace (r * r * (1 + d1) * (polynomial r + c) + s + e - (log2_1p r - g))
  with (r * W + (r * log2e + r * r * polynomial r - log2_1p r) + (g + s - r * log2e) + e) by (unfold W; ring).
assert (De' : Rabs e <= Rabs r * Rabs V * / 16777216 + Rabs r * / 35184372088832).
{ apply Rle_trans with (1 := De). replace (r * r * (1 + d1) * (polynomial r + c)) with (r * V) by (unfold V; ring).
  assert (Rabs (r * V + s) <= Rabs r * Rabs V + Rabs s) by (rewrite <- Rabs_mult; apply Rabs_triang).
  assert (0 <= Rabs r) by apply Rabs_pos. lra. }
assert (B : Rabs r <= 0.7634 * Rabs (log2_1p r)).
{ unfold log2_1p. assert (L2 : 0.69 <= ln 2 <= 0.694) by (split; interval with (i_prec 60)).
  assert (B : Rabs r <= 0.7634 / 0.694 * Rabs (ln (1 + r))).
  { assert (L := ln_near r ltac:(lra)). destruct (Rle_lt_dec 0 r) as [Q | Q].
    - assert (r / 1.1 <= r / (1 + r)). { apply Rmult_le_compat_l. exact Q. apply Rinv_le_contravar; lra. }
      assert (0 <= r / 1.1) by lra. rewrite !Rabs_pos_eq by lra. lra.
    - rewrite !Rabs_left by lra. lra. }
  unfold Rdiv at 1. rewrite Rabs_mult, (Rabs_pos_eq (/ ln 2)) by (left; apply Rinv_0_lt_compat; lra).
  apply Rle_trans with (1 := B). unfold Rdiv. rewrite !Rmult_assoc. apply Rmult_le_compat_l. lra.
  rewrite Rmult_comm. apply Rmult_le_compat_l. apply Rabs_pos. apply Rinv_le_contravar; lra. }
assert (R1 : Rabs (r * W) = Rabs r * Rabs W) by apply Rabs_mult.
assert (R2 : Rabs r * (Rabs W + Rabs V * / 16777216) <= Rabs r * 0.0000000118) by (apply Rmult_le_compat_l; [apply Rabs_pos | exact HW]).
match goal with |- Rabs (?a + ?b + ?c' + ?d) <= _ =>
  assert (Q1 := Rabs_triang (a + b + c') d); assert (Q2 := Rabs_triang (a + b) c'); assert (Q3 := Rabs_triang a b) end.
assert (0 <= Rabs (log2_1p r)) by apply Rabs_pos. lra.
Qed.

(** For every positive binary32 x, log2 is within 1.08 ulp of the binary logarithm.

    Speaks of: log2 d50070d3e86c35846c83a2a72f905cb398b4354333891a0df6208b028c9acf3e

    Rests on it: fn.Log2Function. *)
Theorem log2_ulps : forall x special, F32 x -> 0 < x < bpow radix2 128 ->
  Rabs (log2_f32 x special - ln x / ln 2) <= 1.08 * ulp32 (ln x / ln 2).
Proof.
intros x special F H.
assert (R : exists J K, f x = IZR J * bpow radix2 (-24) /\ (3474675 - 2 ^ 23 <= J < 2 * 3474675)%Z /\ kf x = IZR K /\ (-149 <= K <= 128)%Z /\
  ln x = IZR K * ln 2 + ln (1 + f x)) by exact (reduce_log x 3474675 F H ltac:(lia)).
destruct R as [J [K [Ef [HJ [Ek [HK EL]]]]]].
assert (L2 : 0.69 <= ln 2) by interval with (i_prec 60).
assert (ET : ln x / ln 2 = IZR K + log2_1p (f x)) by (rewrite EL; unfold log2_1p; field; lra).
rewrite ET. clear EL ET.
assert (Hf : (-0.2929) <= f x <= 0.41422).
{ rewrite Ef. powers. destruct HJ as [J1 J2]. apply IZR_le in J1. apply IZR_lt in J2. rewrite minus_IZR in J1. rewrite mult_IZR in J2.
  change (IZR (2 ^ 23)) with 8388608 in J1. lra. }
assert (Nf : f x = 0 \/ / 16777216 <= Rabs (f x)).
{ destruct (Z.eq_dec J 0) as [-> | NJ]. left. rewrite Ef. ring. right.
  rewrite Ef, Rabs_mult, (Rabs_pos_eq (bpow _ _)), <- abs_IZR by apply bpow_ge_0.
  assert (1 <= IZR (Z.abs J)) by (apply IZR_le; lia). powers. lra. }
assert (Fg : F32 (g x)) by (apply generic_format_round; auto with typeclass_instances).
assert (Fr : F32 (rest x)) by (apply generic_format_round; auto with typeclass_instances).
assert (Hg : Rabs (g x) <= 6 / 10).
{ destruct (parts x Nf) as [P PR]. assert (Rabs (f x) <= 0.41422) by (apply Rabs_le; lra).
  assert (Rabs (f x * log2e) <= 0.5977) by (unfold log2e; rewrite Rabs_mult, (Rabs_pos_eq (_ + _)) by lra; lra).
  replace (g x) with ((g x + rest x - f x * log2e) + f x * log2e - rest x) by ring.
  match goal with |- Rabs (?a + ?b - ?c) <= _ => assert (Q1 := Rabs_triang (a + b) (- c)); assert (Q2 := Rabs_triang a b) end.
  rewrite Rabs_Ropp in Q1. unfold Rminus at 1. lra. }
assert (S : Rabs (hi x + lo x - (IZR K + g x)) <= / 4398046511104 /\ Rabs (lo x) <= / 131072 /\ (K = 0%Z -> hi x = g x /\ lo x = 0)).
{ unfold lo, t18, hi. rewrite Ek. apply integer_in_two; auto; lia. }
destruct S as [S [Hlo S0]].
assert (Y : log2_f32 x special = rnd (hi x + rnd (rnd (f x * f x) * q x + rnd (lo x + rest x)))).
{ unfold log2_f32, t26, t1, t25, t2. rewrite Rlt_bool_true by lra. reflexivity. }
replace 1.08 with (/ 2 + (0.579 + 0.001)) by lra. rewrite Y. clear Y.
assert (Large : forall b, (-3 <= b)%Z -> bpow radix2 b <= Rabs (IZR K + log2_1p (f x)) -> Rabs (rnd (rnd (f x * f x) * q x + rnd (lo x + rest x)) -
    (log2_1p (f x) - g x + lo x)) <= 0.579 * bpow radix2 (b - 23) ->
  Rabs (rnd (hi x + rnd (rnd (f x * f x) * q x + rnd (lo x + rest x))) - (IZR K + log2_1p (f x))) <= (/ 2 + (0.579 + 0.001)) * ulp32 (IZR K + log2_1p (f x))).
{ intros b Hb L. generalize (rnd (rnd (f x * f x) * q x + rnd (lo x + rest x))). intros z E. apply rnd_one_ulp.
  - intros Z. rewrite Z, Rabs_R0 in L. generalize (bpow_gt_0 radix2 b). lra.
  - lra.
  - apply Rle_trans with ((0.579 + 0.001) * bpow radix2 (b - 23)); [|apply Rmult_le_compat_l; [lra | now apply ulp32_ge]].
    assert (bpow radix2 (-26) <= bpow radix2 (b - 23)) as Hu by (apply bpow_le; lia). revert Hu. powers. intros Hu.
    replace (hi x + z - _) with ((z - (log2_1p (f x) - g x + lo x)) + (hi x + lo x - (IZR K + g x))) by ring.
    apply Rle_trans with (1 := Rabs_triang _ _). lra. }
destruct (Z.eq_dec K 0) as [K0 | K0].
- destruct (S0 K0) as [E1 E2]. rewrite K0, Rplus_0_l in *.
  destruct Nf as [Z | Nz].
  { assert (E0 : rnd 0 = 0) by (apply round_0; auto with typeclass_instances).
    destruct (parts x (or_introl Z)) as [_ PR]. rewrite Z, Rabs_R0, Rmult_0_l in PR.
    assert (R0 : rest x = 0) by (apply Rabs_le_inv in PR; lra).
    assert (G0 : g x = 0) by (unfold g; rewrite Z, Rmult_0_l; exact E0).
    assert (A : rnd (rnd (0 * 0) * q x + rnd (0 + 0)) = 0).
    { replace (0 * 0) with 0 by ring. replace (0 + 0) with 0 by ring. rewrite E0. replace (0 * q x + 0) with 0 by ring. exact E0. }
    unfold log2_1p. rewrite E1, E2, R0, G0, Z, A. replace (0 + 0) with 0 by ring. rewrite E0, Rplus_0_r, ln_1.
    replace (0 - 0 / ln 2) with 0 by (field; lra). rewrite Rabs_R0.
    apply Rmult_le_pos. lra. apply Rle_trans with (2 := ulp32_least _). apply bpow_ge_0. }
  assert (Small : (-0.0830) <= f x <= 0.0906 -> Rabs (rnd (hi x + rnd (rnd (f x * f x) * q x + rnd (lo x + rest x))) - log2_1p (f x)) <= (/ 2 + (0.579 + 0.001)) * ulp32 (log2_1p (f x))).
  { intros HS. rewrite E1, E2, Rplus_0_l, (round_generic _ _ _ (rest x)) by exact Fr.
    assert (N1 := near_one x HS Nz).
    apply Rle_trans with ((/ 2 + 0.45 / 16777216 * 16777216) * ulp32 (log2_1p (f x))).
    2: { apply Rmult_le_compat_r. apply Rle_trans with (2 := ulp32_least _). apply bpow_ge_0. lra. }
    apply rnd_relative; [| lra |].
    - intros Z. assert (L := ln_near (f x) ltac:(lra)). assert (Z' : ln (1 + f x) = 0).
      { unfold log2_1p in Z. replace (ln (1 + f x)) with (ln (1 + f x) / ln 2 * ln 2) by (field; lra). rewrite Z. ring. }
      rewrite Z' in L. rewrite Rabs_pos_eq in Nz by lra.
      assert (0 < f x / (1 + f x)) by (apply Rdiv_lt_0_compat; lra). lra.
    - match goal with |- Rabs ?A <= _ => replace A with (rnd (rnd (f x * f x) * q x + rest x) - (log2_1p (f x) - g x)) by ring end. exact N1. }
  (destruct (Rle_lt_dec (-0.2929) (f x)) as [La | La]; [destruct (Rle_lt_dec (f x) (-0.1592)) as [Ha | Ha]|]);
    try (apply (Large (-2)%Z); [lia | unfold log2_1p; powers; interval with (i_prec 60) | change (bpow radix2 (-2 - 23)) with (/ 33554432); apply near_a; auto; lra]);
  (destruct (Rle_lt_dec (-0.1592) (f x)) as [Lb | Lb]; [destruct (Rle_lt_dec (f x) (-0.0830)) as [Hb | Hb]|]);
    try (apply (Large (-3)%Z); [lia | unfold log2_1p; powers; interval with (i_prec 60) | change (bpow radix2 (-3 - 23)) with (/ 67108864); apply near_b; auto; lra]);
  (destruct (Rle_lt_dec 0.0906 (f x)) as [Lc | Lc]; [destruct (Rle_lt_dec (f x) 0.1893) as [Hc | Hc]|]);
    try (apply (Large (-3)%Z); [lia | unfold log2_1p; powers; interval with (i_prec 60) | change (bpow radix2 (-3 - 23)) with (/ 67108864); apply near_c; auto; lra]);
  (destruct (Rle_lt_dec 0.1893 (f x)) as [Ld | Ld]; [destruct (Rle_lt_dec (f x) 0.41422) as [Hd | Hd]|]);
    try (apply (Large (-2)%Z); [lia | unfold log2_1p; powers; interval with (i_prec 60) | change (bpow radix2 (-2 - 23)) with (/ 33554432); apply near_d; auto; lra]);
  try (apply Small; lra); exfalso; lra.
- assert (T : bpow radix2 (-2) <= Rabs (IZR K + log2_1p (f x))).
  { assert (L1 : Rabs (log2_1p (f x)) <= 0.51) by (clear - Hf; unfold log2_1p; interval with (i_prec 60)).
    assert (L3 : 1 <= Rabs (IZR K)) by (rewrite <- abs_IZR; apply IZR_le; lia).
    powers. generalize (Rabs_triang_inv (IZR K) (- log2_1p (f x))). rewrite Rabs_Ropp.
    replace (IZR K - - log2_1p (f x)) with (IZR K + log2_1p (f x)) by ring. lra. }
  apply (Large (-2)%Z). lia. exact T. change (bpow radix2 (-2 - 23)) with (/ 33554432). now apply near.
Qed.
