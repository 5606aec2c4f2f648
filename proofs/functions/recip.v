(** * recip

    The largest error of the function recip in ulps, from its nodes. Written by tokitai prove recip --emit; do not edit. *)

From Coq Require Import Reals ZArith Lia Lra.
From Flocq Require Import Core.
From Interval Require Import Tactic.
From Tokitai Require Import functions.Binary32 functions.Patterns.
Open Scope R_scope.

(* function recip(x): 1/x within 0.76 ulp for x != 0
  t1 = abs(x)
  t2 = less(t1, 1)
  scale = select(t2, 0x1p+64, 0x1p-64)
  xs = mul(x, scale)
  t3 = neg(xs)
  t4 = bits(xs)
  t5 = isub(0x7ef3340c, t4)
  g0 = float(t5)
  gu = fma(xs, g0, -0x1.803fp+00)
  t6 = fma(gu, gu, 0x1.7f821p-01)
  g1 = mul(g0, t6)
  gap = fma(t3, g1, 1)
  t7 = less(gap, 0.5)
  t8 = fma(g1, gap, g1)
  t9 = mul(t8, scale)
  t10 = bits(x)
  t11 = isub(0x7f800000, t10)
  t12 = float(t11)
  t13 = select(t7, t9, t12)
  return t13
*)
Section Nodes.
Variable x : R.
Definition t1 := Rabs x.
Definition t2 := Rlt_bool t1 1.
Definition scale := if t2 then 18446744073709551616 else (1 / 18446744073709551616).
Definition xs := rnd (x * scale).
Definition t3 := - xs.
Definition t4 := bits xs.
Definition t5 := isub (2129867788)%Z t4.
Definition g0 := float t5.
Definition gu := rnd (xs * g0 + (-98367 / 65536)).
Definition t6 := rnd (gu * gu + (1570849 / 2097152)).
Definition g1 := rnd (g0 * t6).
Definition gap := rnd (t3 * g1 + 1).
Definition t7 := Rlt_bool gap (1 / 2).
Definition t8 := rnd (g1 * gap + g1).
Definition t9 := rnd (t8 * scale).
Definition t10 := bits x.
Definition t11 := isub (2139095040)%Z t10.
Definition t12 := float t11.
Definition t13 := if t7 then t9 else t12.
Definition recip_f32 := t13.
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
Lemma core : forall x, let v := (xs x) in F32 v -> bpow radix2 (-125) <= Rabs v <= bpow radix2 125 ->
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

(** For every binary32 x but 0, recip is within 0.5185 ulp of the reciprocal, and within 0.75925 ulp where that is
    below 2^-126.

    Speaks of: recip 329fa727bde82691df2ebf6ba552c498c2b1090809a1d4362b1de0fc57273994

    Rests on it: fn.RecipFunction. *)
Theorem recip_ulps : forall x, F32 x -> x <> 0 -> Rabs x < bpow radix2 128 ->
  (bpow radix2 (-126) <= Rabs (/ x) -> Rabs (recip_f32 x - / x) <= 0.5185 * ulp32 (/ x)) /\
  (Rabs (/ x) < bpow radix2 (-126) -> Rabs (recip_f32 x - / x) <= 0.75925 * ulp32 (/ x)).
Proof.
intros x F N H. assert (L := F32_least x F N).
assert (S : exists c, scale x = bpow radix2 c /\ xs x = x * bpow radix2 c /\ bpow radix2 (-85) <= Rabs (x * bpow radix2 c) <= bpow radix2 64).
{ unfold xs, scale, t2, t1. case Rlt_bool_spec; intros B.
  - exists 64%Z. assert (E : 18446744073709551616 = bpow radix2 64) by (powers; reflexivity).
    rewrite E. split. reflexivity. split.
    + apply round_generic; auto with typeclass_instances. apply F32_scale with (-148)%Z; [exact F | exact L | lia].
    + rewrite Rabs_mult, (Rabs_pos_eq (bpow _ _)) by apply bpow_ge_0.
      replace (-85)%Z with (-149 + 64)%Z by ring. rewrite bpow_plus. assert (0 < bpow radix2 64) by apply bpow_gt_0. split; nra.
  - exists (-64)%Z. assert (E : 1 / 18446744073709551616 = bpow radix2 (-64)) by (powers; lra).
    rewrite E. split. reflexivity. split.
    + apply round_generic; auto with typeclass_instances. apply F32_scale with 1%Z; [exact F | exact B | lia].
    + rewrite Rabs_mult, (Rabs_pos_eq (bpow _ _)) by apply bpow_ge_0.
      assert (0 < bpow radix2 (-64)) by apply bpow_gt_0.
      assert (bpow radix2 (-85) <= bpow radix2 (-64)) by (apply bpow_le; lia).
      replace (bpow radix2 64) with (bpow radix2 128 * bpow radix2 (-64)) by (rewrite <- bpow_plus; reflexivity). split; nra. }
destruct S as [c [S [V B]]].
assert (Q := bpow_gt_0 radix2 c).
assert (FV : F32 (xs x)) by (apply generic_format_round; auto with typeclass_instances).
destruct (core x) as [G C].
- exact FV.
- rewrite V. split; [apply Rle_trans with (2 := proj1 B) | apply Rle_trans with (1 := proj2 B)]; apply bpow_le; lia.
- assert (E : recip_f32 x = rnd (rnd (g1 x * gap x + g1 x) * bpow radix2 c)).
  { unfold recip_f32, t13, t7. rewrite Rlt_bool_true.
    - unfold t9. rewrite S. reflexivity.
    - apply Rle_lt_trans with (1 := Rle_abs _). lra. }
  assert (R : / x = / xs x * bpow radix2 c) by (rewrite V; field; lra).
  rewrite E, R. replace 0.5185 with (/ 2 + (0.5185 - / 2) / 16777216 * 16777216) by lra.
  replace 0.75925 with (3 / 4 + (0.5185 - / 2) / 16777216 * 8388608) by lra.
  apply scaled_relative; [| lra | exact C].
  rewrite V, Rabs_inv. assert (0 < Rabs (x * bpow radix2 c)). { apply Rlt_le_trans with (2 := proj1 B). apply bpow_gt_0. }
  apply Rle_trans with (/ bpow radix2 64). rewrite <- bpow_opp. apply bpow_le. lia.
  apply Rinv_le_contravar; [assumption | exact (proj2 B)].
Qed.
