(** * Operations with the functions that they call

    The theorems about operations take a function within some ulps; the theorems about functions say that those of package
    fn are. Here they meet: nothing is assumed of a function any more. The results are those of operations/computed.v, which
    has the definitions' nodes with the functions that they call. *)

From Coq Require Import Reals List Lra Lia ZArith.
From Flocq Require Import Core.
From Tokitai Require Import Sum Lanes Binary32 Gemm Entropy Adamw Models Softmax Gelu GeluGradient.
From Tokitai Require functions.Binary32 functions.exp_nonpositive functions.exp_bounded functions.recip_bounded.
From Tokitai Require operations.softmax_forward operations.gelu_forward operations.gelu_backward operations.computed.
Local Open Scope R_scope.

Notation exp_nonpositive := functions.exp_nonpositive.exp_nonpositive_f32.
Notation exp_bounded := functions.exp_bounded.exp_bounded_f32.
Notation recip_bounded := functions.recip_bounded.recip_bounded_f32.
Notation ulp32 := functions.Binary32.ulp32.

Lemma ulp_normal (T : R) : bpow radix2 (-126) <= Rabs T -> ulp32 T <= 2 * u * Rabs T.
Proof.
  intros H. assert (P := bpow_gt_0 radix2 (-126)).
  assert (N : T <> 0) by (intros ->; rewrite Rabs_R0 in H; lra).
  unfold ulp32. rewrite ulp_neq_0 by exact N. unfold cexp, FLT_exp.
  assert (M : (-126 < mag radix2 T)%Z) by (apply mag_gt_bpow; exact H).
  replace (Z.max (mag radix2 T - 24) (-149)) with (-23 + (mag radix2 T - 1))%Z by lia.
  rewrite bpow_plus. replace (2 * u) with (bpow radix2 (-23)) by (unfold u; simpl; lra).
  apply Rmult_le_compat_l; [apply bpow_ge_0|]. now apply bpow_mag_le.
Qed.

Lemma ulp_subnormal (T : R) : 0 < T < bpow radix2 (-126) -> ulp32 T = 2 * eta.
Proof.
  intros H. unfold ulp32. rewrite ulp_neq_0 by lra. unfold cexp, FLT_exp.
  assert (M : (mag radix2 T <= -126)%Z) by (apply mag_le_bpow; [lra|rewrite Rabs_pos_eq; lra]).
  replace (Z.max (mag radix2 T - 24) (-149)) with (1 + -150)%Z by lia.
  rewrite bpow_plus. reflexivity.
Qed.

(** An error in ulps, as the theorems about operations take it. *)
Lemma from_ulps (y z : R) :
  (bpow radix2 (-126) <= exp z -> Rabs (y - exp z) <= 0.925 * ulp32 (exp z)) ->
  (exp z < bpow radix2 (-126) -> Rabs (y - exp z) <= 0.9625 * ulp32 (exp z)) ->
  Rabs (y - exp z) <= 2 * u * exp z + 2 * eta.
Proof.
  intros A B. pose proof (exp_pos z) as P. assert (E0 : 0 < eta) by apply bpow_gt_0. assert (U0 : 0 < u) by apply bpow_gt_0.
  assert (Q : 0 <= u * exp z) by (apply Rmult_le_pos; lra).
  destruct (Rle_lt_dec (bpow radix2 (-126)) (exp z)) as [N|N].
  - pose proof (ulp_normal (exp z)) as L. rewrite Rabs_pos_eq in L by lra. specialize (A N). specialize (L N). lra.
  - specialize (B N). rewrite ulp_subnormal in B by lra. lra.
Qed.

Lemma exp_nonpositive_within : within_one_ulp exp_nonpositive.
Proof.
  intros z F H. split; [refine (generic_format_round radix2 (FLT_exp (-149) 24) ZnearestE _)|].
  destruct (functions.exp_nonpositive.exp_nonpositive_ulps z F ltac:(lra)) as [A [B _]]. now apply from_ulps.
Qed.

Lemma exp_bounded_within : exp_within_one_ulp exp_bounded.
Proof.
  intros z F H. split; [refine (generic_format_round radix2 (FLT_exp (-149) 24) ZnearestE _)|].
  destruct (functions.exp_bounded.exp_bounded_ulps z F ltac:(lra)) as [A B]. now apply from_ulps.
Qed.

Lemma recip_bounded_within : recip_within_three_quarters recip_bounded.
Proof.
  intros z F H. assert (U0 : 0 < u) by apply bpow_gt_0.
  assert (I : / 4 <= / z) by (apply Rinv_le_contravar; lra).
  assert (R := functions.recip_bounded.recip_bounded_ulps z F).
  assert (D : bpow radix2 (-125) <= Rabs z <= bpow radix2 125).
  { rewrite Rabs_pos_eq by lra. split.
    - apply Rle_trans with (bpow radix2 (-1)); [apply bpow_le; lia|simpl; lra].
    - apply Rle_trans with (bpow radix2 2); [simpl; lra|apply bpow_le; lia]. }
  specialize (R D). pose proof (ulp_normal (/ z)) as L. rewrite Rabs_pos_eq in L by lra.
  assert (L' : ulp32 (/ z) <= 2 * u * / z).
  { apply L. apply Rle_trans with (bpow radix2 (-2)); [apply bpow_le; lia|simpl; lra]. }
  assert (0 <= u * / z) by (apply Rmult_le_pos; lra). lra.
Qed.

(** softmax.forward with the exponential of package fn: the closed form of docs/accuracy.md, before the result is stored.

    Speaks of: softmax.forward 5b8ecb97e5e83a1a7f60aa9f6ec773e0bcf2fd18c2e3b1feb6d3feb46c8fba7b, exp_nonpositive
    a47d37a9ca0edfaf8d2b10a767e73752ff969b9c93b56c6b7d91dd637a46b9ce

    Rests on it: bound.Probabilities.Error; op/softmax.forwardBounds. *)
Theorem softmax_forward_closed : forall (L : nat) (rowmax : list R -> R) (row : list R) (x : R),
  let h := lane_height (length row) L in let m := rowmax row in
  let y32 := computed.softmax_forward_y rowmax (lane_sum R 0 add32 L) row x in let y := softmax_forward.exact_y rowmax row x in
  Forall binary32 row -> In m row -> (forall z, In z row -> z <= m) -> In x row ->
  (0 < L)%nat -> (Z.of_nat (length row) <= 2 ^ 22)%Z -> INR h <= 1000 ->
  Rabs (y32 - y) <= (m - x + ln (INR (length row)) + INR h + 7) * u * y + 4 * eta.
Proof. intros L rowmax row x h m y32 y. exact (softmax_forward_error exp_nonpositive L rowmax row x exp_nonpositive_within). Qed.

(** gelu.forward with the exponential and the reciprocal of package fn: the closed forms of docs/accuracy.md, before the
    result is stored.

    Speaks of: gelu.forward 3f04a41a8f7f32a533bfc6d5abdec926962abde36b535b9a519999ad4753cf4f, exp_bounded
    a9d0e335e36fba683a934b6c5f2baccb2863a763f89077f3d397a8f54b5e1b6c, recip_bounded
    2bd27bc3df719987c4dab9e396851c22c52e332a64b25f6352f7b0da6c359d59

    Rests on it: op/gelu.forwardBounds. *)
Theorem gelu_forward_closed : forall x : R,
  let y32 := computed.gelu_forward_y x in let y := gelu_forward.exact_y x in
  (0 <= x -> Rabs (y32 - y) <= 6 * u * y + eta) /\
  (x < 0 -> Rabs (y32 - y) <= (4 * t_of (held x) + 7) * u * Rabs y + 64 * eta).
Proof. intros x y32 y. apply (gelu_forward_error exp_bounded recip_bounded x); [exact exp_bounded_within | exact recip_bounded_within]. Qed.

(** gelu.backward with the exponential and the reciprocal of package fn: the closed forms of docs/accuracy.md, before the
    result is stored.

    Speaks of: gelu.backward b40f8455a078965c289d0265d1c80e273f64642723ba4a7e0b491efbd2282029, exp_bounded
    a9d0e335e36fba683a934b6c5f2baccb2863a763f89077f3d397a8f54b5e1b6c, recip_bounded
    2bd27bc3df719987c4dab9e396851c22c52e332a64b25f6352f7b0da6c359d59

    Rests on it: op/gelu.backwardBounds. *)
Theorem gelu_backward_closed : forall dy x : R,
  let t := t_of (held x) in let e := exp (- t) in let r := / (1 + e) in let k := r * slope_at (held x) in
  let dx32 := computed.gelu_backward_dx dy x in let dx := gelu_backward.exact_dx dy x in
  (0 <= x -> Rabs (dx32 - dx) <=
    u * Rabs dy * r * (8 * (1 + e * k) + (4 * t + 12) * (e * k)) + (1 + Rabs dy) * (4096 * eta)) /\
  (x < 0 -> Rabs (dx32 - dx) <=
    u * Rabs dy * r * e * ((4 * t + 10) * Rabs (1 - k) + 10 * k) + (1 + Rabs dy) * (4096 * eta)).
Proof. intros dy x t e r k dx32 dx. apply (gelu_backward_error exp_bounded recip_bounded dy x); [exact exp_bounded_within | exact recip_bounded_within]. Qed.
