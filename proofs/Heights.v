(** * Sums of sums

    Long sums are taken in two steps or more: chunks, rows or panels are added, and their sums are added again. The
    heights of the steps add up.

    Speaks of: norm.square_sum c63ede4b1123833b0b872bc8279f7521232aeefc34555824a4d6e9c8fc666102, embedding.backward
    a4f29218009f7fb4779be5cfc666dbca23e17a038f9a248516d4147bba8e3cb7 *)

From Coq Require Import Reals List Lia Lra Psatz.
From Tokitai Require Import Sum Lanes.
Import ListNotations.
Local Open Scope R_scope.

(** Higham 2002, lemma 3.3. *)
Lemma gamma_of_both u a b : 0 <= u -> INR (a + b) * u < 1 ->
  gamma u a + gamma u b + gamma u a * gamma u b <= gamma u (a + b).
Proof.
  intros U H. unfold gamma. rewrite plus_INR in *. pose proof (pos_INR a) as A. pose proof (pos_INR b) as B.
  set (x := INR a * u) in *. set (y := INR b * u) in *. replace ((INR a + INR b) * u) with (x + y) in * by (unfold x, y; ring).
  assert (0 <= x) by (apply Rmult_le_pos; lra). assert (0 <= y) by (apply Rmult_le_pos; lra).
  assert (X : 0 < 1 - x) by lra. assert (Y : 0 < 1 - y) by lra. assert (Z : 0 < 1 - (x + y)) by lra.
  replace (x / (1 - x) + y / (1 - y) + x / (1 - x) * (y / (1 - y))) with ((x + y - x * y) / ((1 - x) * (1 - y))) by (field; lra).
  assert (P : 0 <= x * y) by (apply Rmult_le_pos; lra). assert (Q : 0 < (1 - x) * (1 - y)) by (apply Rmult_lt_0_compat; lra).
  apply Rmult_le_reg_r with ((1 - x) * (1 - y)); [exact Q|]. unfold Rdiv at 1. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  apply Rmult_le_reg_r with (1 - (x + y)); [exact Z|].
  replace ((x + y) / (1 - (x + y)) * ((1 - x) * (1 - y)) * (1 - (x + y))) with ((x + y) * ((1 - x) * (1 - y))) by (field; lra).
  nra.
Qed.

Lemma sums_app x y : sum (x ++ y) = sum x + sum y.
Proof. unfold sum. induction x; simpl; lra. Qed.

Lemma sum_abs_nonneg x : 0 <= sum_abs x.
Proof. unfold sum_abs, sum. induction x as [|c l IH]; simpl; [lra|]. pose proof (Rabs_pos c). lra. Qed.

Lemma sum_le_sum_abs x : Rabs (sum x) <= sum_abs x.
Proof.
  unfold sum_abs, sum. induction x as [|c l IH]; simpl; [rewrite Rabs_R0; lra|].
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

(** A sum whose terms are sums: [parts] are added in L lanes each, with heights of at most a, and their sums in M lanes,
    with a height of at most b. The error is that of a sum of height a + b. A sum of more levels is one of two, again and
    again.

    Rests on it: bound.TotalHeight; num.LaneSum; def.ScatterChunk. *)
Theorem sum_of_sums_error is_float add u L M a b parts :
  rounded_addition is_float add u -> is_float 0 -> Forall (Forall is_float) parts -> (0 < L)%nat -> (0 < M)%nat ->
  Forall (fun x => lane_height (length x) L <= a)%nat parts -> (lane_height (length parts) M <= b)%nat -> INR (a + b) * u < 1 ->
  Rabs (lane_sum R 0 add M (map (lane_sum R 0 add L) parts) - sum (concat parts)) <= gamma u (a + b) * sum_abs (concat parts).
Proof.
  intros R F0 F HL HM Ha Hb H. pose proof (u_nonneg _ _ _ R) as U.
  assert (HA : INR a * u < 1 /\ INR b * u < 1).
  { rewrite plus_INR in H. pose proof (pos_INR a). pose proof (pos_INR b). split; nra. }
  assert (mono : forall n m, (n <= m)%nat -> INR m * u < 1 -> 0 <= gamma u n <= gamma u m).
  { intros n m N X. unfold gamma. apply le_INR in N. pose proof (pos_INR n).
    assert (INR n * u <= INR m * u) by (apply Rmult_le_compat_r; lra). assert (0 <= INR n * u) by (apply Rmult_le_pos; lra).
    split; [apply Rmult_le_pos; [lra|apply Rlt_le, Rinv_0_lt_compat; lra]|].
    apply Rmult_le_compat; [lra|apply Rlt_le, Rinv_0_lt_compat; lra|lra|apply Rinv_le_contravar; lra]. }
  set (ys := map (lane_sum Rdefinitions.R 0 add L) parts).
  assert (E : Rabs (sum ys - sum (concat parts)) <= gamma u a * sum_abs (concat parts) /\
              sum_abs ys <= (1 + gamma u a) * sum_abs (concat parts) /\ Forall is_float ys).
  { unfold ys. clear Hb ys. induction parts as [|p l IH].
    - unfold sum_abs. simpl. rewrite Rminus_0_r, Rabs_R0. repeat split; try lra. constructor.
    - inversion F as [|? ? Fp Fl]; subst. inversion Ha as [|? ? Hp Hl]; subst. destruct (IH Fl Hl) as [I1 [I2 I3]].
      destruct (mono _ _ Hp (proj1 HA)) as [G0 G1].
      assert (Ep : Rabs (lane_sum Rdefinitions.R 0 add L p - sum p) <= gamma u a * sum_abs p).
      { eapply Rle_trans; [apply (lane_sum_error is_float add u L p); try assumption|].
        - eapply Rle_lt_trans; [|exact (proj1 HA)]. apply Rmult_le_compat_r; [exact U|]. now apply le_INR.
        - apply Rmult_le_compat_r; [apply sum_abs_nonneg|exact G1]. }
      cbn [map concat]. unfold sum_abs in *. rewrite map_app, !sums_app.
      set (y := lane_sum Rdefinitions.R 0 add L p) in *. set (S := sum (map (lane_sum Rdefinitions.R 0 add L) l)) in *.
      pose proof (sum_le_sum_abs p) as Q. unfold sum_abs in Q.
      repeat split.
      + change (sum (y :: map (lane_sum Rdefinitions.R 0 add L) l)) with (y + S).
        replace (y + S - (sum p + sum (concat l))) with ((y - sum p) + (S - sum (concat l))) by ring.
        eapply Rle_trans; [apply Rabs_triang|]. lra.
      + change (sum (map Rabs (y :: map (lane_sum Rdefinitions.R 0 add L) l)))
          with (Rabs y + sum (map Rabs (map (lane_sum Rdefinitions.R 0 add L) l))).
        assert (Rabs y <= Rabs (y - sum p) + Rabs (sum p)).
        { replace y with ((y - sum p) + sum p) at 1 by ring. apply Rabs_triang. }
        lra.
      + constructor; [|exact I3]. unfold y. rewrite <- lane_order_computed.
        apply (computed_float is_float add u R). now apply lane_order_every. }
  destruct E as [E1 [E2 E3]]. destruct (mono _ _ Hb (proj2 HA)) as [G0 G1].
  assert (EO : Rabs (lane_sum Rdefinitions.R 0 add M ys - sum ys) <= gamma u b * sum_abs ys).
  { eapply Rle_trans; [apply (lane_sum_error is_float add u M ys); try assumption|].
    - unfold ys. rewrite map_length. eapply Rle_lt_trans; [|exact (proj2 HA)]. apply Rmult_le_compat_r; [exact U|]. now apply le_INR.
    - unfold ys at 1. rewrite map_length. apply Rmult_le_compat_r; [apply sum_abs_nonneg|exact G1]. }
  pose proof (gamma_of_both u a b U H) as J. pose proof (sum_abs_nonneg (concat parts)) as N.
  set (A := sum_abs (concat parts)) in *. set (ga := gamma u a) in *. set (gb := gamma u b) in *.
  assert (B0 : 0 <= gb) by lra.
  assert (K : gb * sum_abs ys <= gb * ((1 + ga) * A)) by (apply Rmult_le_compat_l; lra).
  assert (K2 : (ga + gb + ga * gb) * A <= gamma u (a + b) * A) by (apply Rmult_le_compat_r; lra).
  replace (lane_sum Rdefinitions.R 0 add M ys - sum (concat parts))
    with ((lane_sum Rdefinitions.R 0 add M ys - sum ys) + (sum ys - sum (concat parts))) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.
