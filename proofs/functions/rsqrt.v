(** * rsqrt

    The largest error of the function rsqrt in ulps, from its nodes. Written by tokitai prove rsqrt --emit; do not edit. *)

From Coq Require Import Reals ZArith Lia Lra Psatz.
From Flocq Require Import Core Relative.
From Interval Require Import Tactic.
From Tokitai Require Import functions.Binary32 functions.Patterns.
Open Scope R_scope.

(* function rsqrt(x): 1/sqrt within 1.5 ulp for x > 0
  t1 = sqrt(x)
  t2 = div(1, t1)
  return t2
*)
Section Nodes.
Variable x : R.
Definition t1 := rnd (sqrt x).
Definition t2 := rnd (1 / t1).
Definition rsqrt_f32 := t2.
End Nodes.

(** A relative error of 2^-24 and a rounding are at most 3/2 ulp together: the first is less than an ulp, so that the rounding
    ends at the next power of two where it leaves the binade. *)
Lemma two_roundings : forall Y T, bpow radix2 (-100) <= T -> Rabs (Y - T) <= / 16777216 * T -> Rabs (rnd Y - T) <= 3 / 2 * ulp32 T.
Proof.
intros Y T HT H. assert (P := bpow_gt_0 radix2 (-100)).
assert (N : T <> 0) by lra.
assert (Hj : bpow radix2 (mag radix2 T - 1) <= T < bpow radix2 (mag radix2 T)).
{ destruct (mag radix2 T) as [j Hj]. simpl. specialize (Hj N). now rewrite Rabs_pos_eq in Hj by lra. }
set (j := mag radix2 T : Z) in Hj.
assert (J : (-100 < j)%Z) by (apply (lt_bpow radix2); lra).
rewrite (ulp32_power T j Hj). replace (Z.max (j - 24) (-149)) with (j - 24)%Z by lia.
assert (E : bpow radix2 j = 16777216 * bpow radix2 (j - 24)).
{ replace j with (24 + (j - 24))%Z at 1 by ring. rewrite bpow_plus. reflexivity. }
assert (Q := bpow_gt_0 radix2 (j - 24)).
assert (L : Rabs (Y - T) < bpow radix2 (j - 24)) by lra.
apply Rabs_lt_inv in L.
destruct (Rle_lt_dec Y (bpow radix2 j)) as [S | S].
- assert (R : Rabs (rnd Y - Y) <= bpow radix2 (j - 25)).
  { apply rnd_error. lia. apply Rabs_le. lra. }
  assert (E2 : bpow radix2 (j - 24) = 2 * bpow radix2 (j - 25)).
  { replace (j - 24)%Z with (1 + (j - 25))%Z by ring. rewrite bpow_plus. reflexivity. }
  apply Rabs_le_inv in R. apply Rabs_le. lra.
- assert (F : F32 (bpow radix2 j)) by (apply generic_format_bpow; unfold FLT_exp; lia).
  assert (A : rnd Y <= bpow radix2 j).
  { apply round_N_le_midp; auto with typeclass_instances. rewrite succ_eq_pos by apply bpow_ge_0.
    rewrite ulp_bpow. replace (FLT_exp (-149) 24 (j + 1)) with (1 + (j - 24))%Z by (unfold FLT_exp; lia).
    rewrite bpow_plus. change (bpow radix2 1) with 2. lra. }
  assert (B : bpow radix2 j <= rnd Y) by (apply round_ge_generic; auto with typeclass_instances; lra).
  apply Rabs_le. lra.
Qed.

(** For every positive binary32 x, rsqrt is within 1.5 ulp of the reciprocal of the square root.

    Speaks of: rsqrt d9b78060e5005f903ae1966d3ea60e79157fa375f572590f00637dce34a58376

    Rests on it: fn.RsqrtFunction. *)
Theorem rsqrt_ulps : forall x, F32 x -> 0 < x < bpow radix2 128 -> Rabs (rsqrt_f32 x - / sqrt x) <= 1.5 * ulp32 (/ sqrt x).
Proof.
intros x F H. assert (L := F32_least x F ltac:(lra)). rewrite Rabs_pos_eq in L by lra.
assert (S1 : bpow radix2 (-75) <= sqrt x).
{ apply Rle_trans with (sqrt (bpow radix2 (-150))).
  - change (-150)%Z with (2 * -75)%Z. rewrite sqrt_bpow. apply Rle_refl.
  - apply sqrt_le_1_alt. apply Rle_trans with (2 := L). apply bpow_le. lia. }
assert (S2 : sqrt x <= bpow radix2 64).
{ rewrite <- (sqrt_bpow radix2 64). apply sqrt_le_1_alt. change (2 * 64)%Z with 128%Z. lra. }
assert (P := bpow_gt_0 radix2 (-75)).
assert (exists d, Rabs d <= / 16777217 /\ rnd (sqrt x) = sqrt x * (1 + d)) as [d [U E]].
{ destruct (relative_error_N_FLT'_ex radix2 (-149) 24 ltac:(lia) (fun x => negb (Z.even x)) (sqrt x)) as [d [t [A [B [C E]]]]].
  apply Rmult_integral in C. destruct C as [C | C].
  - exists (t / sqrt x). split; [|rewrite E, C; field; lra].
    unfold Rdiv. rewrite Rabs_mult, (Rabs_pos_eq (/ sqrt x)) by (left; apply Rinv_0_lt_compat; lra).
    apply Rle_trans with (/ 2 * bpow radix2 (-149) * / bpow radix2 (-75)).
    + apply Rmult_le_compat; [apply Rabs_pos | left; apply Rinv_0_lt_compat; lra | exact B | apply Rinv_le_contravar; lra].
    + powers. lra.
  - exists d. split; [|rewrite E, C; ring]. apply Rle_trans with (1 := A). unfold u_ro. simpl. lra. }
apply Rabs_le_inv in U.
unfold rsqrt_f32, t2, t1. replace 1.5 with (3 / 2) by lra.
apply two_roundings.
- apply Rle_trans with (/ bpow radix2 64). rewrite <- bpow_opp. apply bpow_le. lia. apply Rinv_le_contravar; lra.
- rewrite E. replace (1 / (sqrt x * (1 + d)) - / sqrt x) with (- d / (1 + d) * / sqrt x) by (field; lra).
  rewrite Rabs_mult, (Rabs_pos_eq (/ sqrt x)) by (left; apply Rinv_0_lt_compat; lra).
  apply Rmult_le_compat_r. left; apply Rinv_0_lt_compat; lra.
  apply Rabs_le. split; apply Rmult_le_reg_r with (1 + d); try lra; unfold Rdiv; rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra; lra.
Qed.
