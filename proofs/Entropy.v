(** * Exponentials and their sums

    What the error of softmax needs to know of real exponentials: how far a rounded argument moves them, and that
    distances from the maximum, weighted by probabilities, add up to no more than an entropy. *)

From Coq Require Import Reals List Lia Lra Psatz ZArith.
From Tokitai Require Import Sum Lanes Binary32.
Import ListNotations.
Local Open Scope R_scope.

Lemma exp_m_le a b : a <= b -> exp (- b) <= exp (- a).
Proof. intros [H|H]; [left; apply exp_increasing; lra|right; now subst]. Qed.

Lemma exp_m_power n : exp (- INR n) <= (/ 2) ^ n.
Proof.
  induction n as [|n IH]; [simpl; rewrite Ropp_0, exp_0; lra|].
  rewrite S_INR, Ropp_plus_distr, exp_plus. simpl.
  assert (exp (- (1)) <= / 2).
  { rewrite exp_Ropp. apply Rinv_le_contravar; [lra|]. generalize (exp_ineq1_le 1). lra. }
  pose proof (exp_pos (- INR n)). pose proof (exp_pos (- (1))).
  rewrite (Rmult_comm (/ 2)). apply Rmult_le_compat; lra.
Qed.

Definition speck : R := (/ 2) ^ 200.

Lemma half_powers n : (200 <= n)%nat -> (/ 2) ^ n <= speck.
Proof.
  intros H. unfold speck. replace n with (200 + (n - 200))%nat by lia. rewrite pow_add.
  rewrite <- (Rmult_1_r ((/ 2) ^ 200)) at 2. apply Rmult_le_compat_l; [apply pow_le; lra|].
  rewrite <- (pow1 (n - 200)). apply pow_incr. lra.
Qed.

Lemma exp_far x n : (200 <= n)%nat -> INR n <= x -> exp (- x) <= speck.
Proof.
  intros N H. eapply Rle_trans; [apply exp_m_le, H|]. eapply Rle_trans; [apply exp_m_power|]. now apply half_powers.
Qed.

Lemma exp_near z : Rabs z <= / 2 -> Rabs (exp z - 1) <= Rabs z * (1 + 2 * Rabs z).
Proof.
  intros H. assert (L : 1 + z <= exp z) by apply exp_ineq1_le.
  assert (U : exp z * (1 - z) <= 1).
  { pose proof (exp_pos z) as P. pose proof (exp_ineq1_le (- z)) as Q.
    assert (E : exp z * exp (- z) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
    rewrite <- E. apply Rmult_le_compat_l; lra. }
  pose proof (exp_pos z).
  unfold Rabs in *. destruct (Rcase_abs z); destruct (Rcase_abs (exp z - 1)); nra.
Qed.

(** The rounding of the difference, as the exponential sees it. *)
Lemma exp_of_rounded d z : 0 <= d -> Rabs (z + d) <= u * d ->
  Rabs (exp z - exp (- d)) <= (1 + / 8192) * d * u * exp (- d) + speck.
Proof.
  intros D H. pose proof u_small as US. pose proof u_pos as UP.
  assert (SP : 0 <= speck) by (apply pow_le; lra).
  pose proof (exp_pos (- d)) as EP. pose proof (exp_pos z) as EZ.
  destruct (Rle_or_lt d 1024) as [N|F].
  - replace z with (- d + (z + d)) at 1 by ring. rewrite exp_plus.
    replace (exp (- d) * exp (z + d) - exp (- d)) with ((exp (z + d) - 1) * exp (- d)) by ring.
    rewrite Rabs_mult, (Rabs_pos_eq (exp (- d))) by lra.
    assert (B : u * d <= / 16384) by nra.
    pose proof (exp_near (z + d) ltac:(lra)) as E. pose proof (Rabs_pos (z + d)).
    assert (Rabs (exp (z + d) - 1) <= u * d * (1 + / 8192)).
    { eapply Rle_trans; [exact E|]. apply Rmult_le_compat; lra. }
    assert (Rabs (exp (z + d) - 1) * exp (- d) <= u * d * (1 + / 8192) * exp (- d))
      by (apply Rmult_le_compat_r; lra).
    lra.
  - assert (0 <= (1 + / 8192) * d * u * exp (- d)) by (repeat apply Rmult_le_pos; lra).
    assert (exp (- d) <= speck) by (apply exp_far with 1000%nat; [lia|simpl; lra]).
    assert (exp z <= speck).
    { replace z with (- - z) by ring. apply exp_far with 1000%nat; [lia|].
      assert (z + d <= u * d) by (eapply Rle_trans; [apply Rle_abs|exact H]).
      assert (u * d <= / 16777216 * d) by (apply Rmult_le_compat_r; lra).
      replace (INR 1000) with 1000 by (simpl; lra). lra. }
    unfold Rabs. destruct (Rcase_abs _); lra.
Qed.

(** Far below the maximum, what is left of the second order is absolute. *)
Lemma distance_times_exp d : 0 <= d -> d * / 2048 * exp (- d) <= / 4 * exp (- d) + speck.
Proof.
  intros D. assert (SP : 0 <= speck) by (apply pow_le; lra). pose proof (exp_pos (- d)) as EP.
  destruct (Rle_or_lt d 512) as [N|F].
  - assert (d * / 2048 * exp (- d) <= / 4 * exp (- d)) by (apply Rmult_le_compat_r; lra). lra.
  - replace (- d) with (- (d / 2) + - (d / 2)) at 1 by field. rewrite exp_plus.
    assert (A : exp (- (d / 2)) <= speck) by (apply exp_far with 200%nat; [lia|simpl; lra]).
    assert (B : d / 2 * exp (- (d / 2)) <= 1).
    { rewrite exp_Ropp. pose proof (exp_pos (d / 2)). apply Rmult_le_reg_r with (exp (d / 2)); [easy|].
      rewrite Rmult_assoc, Rinv_l by lra. generalize (exp_ineq1_le (d / 2)). lra. }
    pose proof (exp_pos (- (d / 2))) as P. set (x := exp (- (d / 2))) in *.
    assert (d * / 2048 * (x * x) = / 1024 * (d / 2 * x) * x) by field.
    assert (/ 1024 * (d / 2 * x) * x <= 1 * x) by (apply Rmult_le_compat_r; lra).
    lra.
Qed.

(** The distances from the maximum, weighted by the probabilities, add up to at most ln C: the entropy of the row. *)
Lemma weighted_distances l : 1 <= sum (map (fun d => exp (- d)) l) ->
  sum (map (fun d => d * exp (- d)) l) <= sum (map (fun d => exp (- d)) l) * ln (INR (length l)).
Proof.
  set (S := sum (map (fun d => exp (- d)) l)). intros HS.
  destruct l as [|d0 l0]; [unfold S, sum in HS; simpl in HS; lra|].
  set (l := d0 :: l0) in *. set (C := INR (length l)).
  assert (HC : 1 <= C) by (unfold C, l; simpl length; rewrite S_INR; pose proof (pos_INR (length l0)); lra).
  set (k := ln S - ln C).
  assert (each : forall d, exp (- d) * (1 + k + d) <= S / C).
  { intros d. pose proof (exp_ineq1_le (k + d)) as E. pose proof (exp_pos (- d)) as P.
    assert (X : exp (- d) * exp (k + d) = S / C).
    { rewrite <- exp_plus. replace (- d + (k + d)) with k by ring. unfold k, Rminus.
      rewrite exp_plus, exp_Ropp, !exp_ln by lra. reflexivity. }
    rewrite <- X. apply Rmult_le_compat_l; lra. }
  assert (all : forall m, sum (map (fun d => d * exp (- d)) m) + (1 + k) * sum (map (fun d => exp (- d)) m)
                          <= INR (length m) * (S / C)).
  { induction m as [|d m IH]; [simpl; lra|]. simpl length. rewrite S_INR. simpl. specialize (each d). lra. }
  specialize (all l). fold S in all. fold C in all.
  assert (C * (S / C) = S) by (field; lra).
  assert (0 <= ln S) by (rewrite <- ln_1; destruct HS as [HS|HS]; [left; apply ln_increasing; lra|right; now rewrite <- HS]).
  unfold k in all. nra.
Qed.
