(** * recip_bounded

    The largest error of the function recip_bounded in ulps, from its nodes. Written by tokitai prove recip_bounded --emit; do not edit. *)

From Coq Require Import Reals ZArith Lia Lra.
From Flocq Require Import Core.
From Interval Require Import Tactic.
From Tokitai Require Import functions.Binary32 functions.Patterns.
Open Scope R_scope.

(* function recip_bounded(x): 1/x within 0.52 ulp for 2^-125 <= |x| <= 2^125
  t1 = bits(x)
  t2 = isub(0x7ef3340c, t1)
  g0 = float(t2)
  gu = fma(x, g0, -0x1.803fp+00)
  t3 = fma(gu, gu, 0x1.7f821p-01)
  g1 = mul(g0, t3)
  t4 = neg(x)
  gap = fma(t4, g1, 1)
  t5 = fma(g1, gap, g1)
  return t5
*)
Section Nodes.
Variable x : R.
Definition t1 := bits x.
Definition t2 := isub (2129867788)%Z t1.
Definition g0 := float t2.
Definition gu := rnd (x * g0 + (-98367 / 65536)).
Definition t3 := rnd (gu * gu + (1570849 / 2097152)).
Definition g1 := rnd (g0 * t3).
Definition t4 := - x.
Definition gap := rnd (t4 * g1 + 1).
Definition t5 := rnd (g1 * gap + g1).
Definition recip_bounded_f32 := t5.
End Nodes.

(** The argument times the first guess, for the significand m of the argument. *)
Lemma range : forall m, 1 <= m <= 2 ->
  (m <= 1 + 7549964 / 8388608 -> 0.95001292 <= m * (2 + 7549964 / 8388608 - m) / 2 <= 1.05126874) /\
  (1 + 7549964 / 8388608 <= m -> 0.95001292 <= m * (3 + 7549964 / 8388608 - m) / 4 <= 1.05126874).
Proof. intros m H. split; intros B; split; interval with (i_bisect m, i_taylor m, i_degree 2, i_prec 60, i_depth 30). Qed.

(** The cubic, without roundings. *)
Lemma cubic : forall v, 0.95001292 <= v <= 1.05126874 ->
  - 0.000032275 <= v * ((v + (-98367 / 65536)) * (v + (-98367 / 65536)) + (1570849 / 2097152)) - 1 <= 0.000032613.
Proof. intros v H. split; interval with (i_bisect v, i_taylor v, i_degree 3, i_prec 60, i_depth 30). Qed.

Lemma guessed : forall v, F32 v -> bpow radix2 (-125) <= Rabs v <= bpow radix2 125 ->
  0.95001292 <= v * float (isub (2129867788)%Z (bits v)) <= 1.05126874.
Proof.
assert (P : forall v, F32 v -> bpow radix2 (-125) <= v <= bpow radix2 125 ->
  0.95001292 <= v * float (isub (253 * 2 ^ 23 + 7549964) (bits v)) <= 1.05126874).
{ intros v F H. destruct (guess v 7549964 F H ltac:(lia)) as [m [Hm [[B ->] | [B ->]]]]; now apply (range m Hm). }
change (2129867788)%Z with (253 * 2 ^ 23 + 7549964)%Z.
intros v F H. destruct (Rle_lt_dec 0 v) as [S | S].
- rewrite (Rabs_pos_eq v S) in H. now apply P.
- rewrite (Rabs_left v S) in H. assert (F' : F32 (- v)) by now apply generic_format_opp.
  assert (O := guess_odd (- v) 7549964 F' H ltac:(lia)). rewrite Ropp_involutive in O. rewrite O.
  replace (v * - _) with (- v * float (isub (253 * 2 ^ 23 + 7549964) (bits (- v)))) by ring. now apply P.
Qed.

(** The Newton step, before its rounding. *)
Lemma core : forall x, let v := x in F32 v -> bpow radix2 (-125) <= Rabs v <= bpow radix2 125 ->
  Rabs (gap x) <= / 8192 /\
  Rabs (g1 x * gap x + g1 x - / v) <= ((0.5185 - / 2) / 16777216) * Rabs (/ v).
Proof.
intros x v F H. assert (G : 0.95001292 <= v * g0 x <= 1.05126874) by exact (guessed v F H).
assert (P := bpow_gt_0 radix2 (-125)).
assert (Hv : v <> 0) by (intros E; rewrite E, Rabs_R0 in H; lra).
destruct (newton v (g0 x) (-98367 / 65536) (1570849 / 2097152) 0.000032613) as [A B].
- lra.
- lra.
- lra.
- lra.
- assert (C := cubic _ G). apply Rabs_le. lra.
- assert (Q : Rabs v * Rabs (g0 x) >= 0.95001292) by (rewrite <- Rabs_mult, Rabs_pos_eq; lra).
  assert (0 <= Rabs (g0 x)) by apply Rabs_pos.
  replace (bpow radix2 (-126)) with (/ 2 * / bpow radix2 125) by (powers; lra).
  assert (0 < bpow radix2 125) by apply bpow_gt_0.
  apply Rmult_le_reg_r with (bpow radix2 125). assumption. field_simplify; nra.
- split. exact A.
  replace (g1 x * gap x + g1 x - / v) with ((v * (g1 x * gap x + g1 x) - 1) * / v) by (field; exact Hv).
  rewrite Rabs_mult. apply Rmult_le_compat_r. apply Rabs_pos.
  apply Rle_trans with (1 := B). lra.
Qed.

(** For every binary32 x with 2^-125 <= |x| <= 2^125, recip_bounded is within 0.5185 ulp of the reciprocal.

    Speaks of: recip_bounded 2bd27bc3df719987c4dab9e396851c22c52e332a64b25f6352f7b0da6c359d59

    Rests on it: fn.RecipBoundedFunction. *)
Theorem recip_bounded_ulps : forall x, F32 x -> bpow radix2 (-125) <= Rabs x <= bpow radix2 125 ->
  Rabs (recip_bounded_f32 x - / x) <= 0.5185 * ulp32 (/ x).
Proof.
intros x F H. destruct (core x F H) as [_ C].
assert (P := bpow_gt_0 radix2 (-125)).
assert (Hv : x <> 0) by (intros E; rewrite E, Rabs_R0 in H; lra).
replace 0.5185 with (/ 2 + (0.5185 - / 2) / 16777216 * 16777216) by lra.
apply rnd_relative; [now apply Rinv_neq_0_compat | lra | exact C].
Qed.
