(** * The error of softmax

    The definition softmax.forward subtracts the row's maximum, takes exponentials, adds them in lanes, and multiplies
    each by the reciprocal of the sum. Every step is rounded to binary32. The exponential is any function within one
    unit in the last place. The theorem is about the model that operations/softmax_forward.v has from the definition's
    nodes. *)

From Coq Require Import Reals List Lia Lra Psatz ZArith.
From Flocq Require Import Core.
From Tokitai Require Import Sum Lanes Binary32 Gemm Entropy Models.
From Tokitai Require operations.softmax_forward.
Import ListNotations.
Local Open Scope R_scope.

(** The row as it is computed, with L lanes, and the exact probabilities. *)
Definition exponential (exp32 : R -> R) (m x : R) : R := exp32 (round32 (x - m)).

Definition softmax32 (exp32 : R -> R) (L : nat) (m : R) (row : list R) (x : R) : R :=
  round32 (exponential exp32 m x * round32 (1 / lane_sum R 0 add32 L (map (exponential exp32 m) row))).

Definition total (m : R) (row : list R) : R := sum (map (fun x => exp (x - m)) row).
Definition softmax (m : R) (row : list R) (x : R) : R := exp (x - m) / total m row.

(** Within one unit in the last place of binary32, for arguments that are not positive. *)
Definition within_one_ulp (exp32 : R -> R) : Prop :=
  forall z, binary32 z -> z <= 0 -> binary32 (exp32 z) /\ Rabs (exp32 z - exp z) <= 2 * u * exp z + 2 * eta.

(** ** The steps *)

(** Errors of a computed exponential: relative, and absolute. *)
Definition relative (d : R) : R := ((1 + / 4096) * d + 2) * u.
Definition absolute : R := 2 * eta + 2 * speck.

Lemma exponential_error exp32 m x :
  within_one_ulp exp32 -> binary32 x -> binary32 m -> x <= m ->
  binary32 (exponential exp32 m x) /\
  Rabs (exponential exp32 m x - exp (x - m)) <= relative (m - x) * exp (x - m) + absolute.
Proof.
  intros W X M L. unfold exponential, relative, absolute.
  assert (Z : round32 (x - m) <= 0).
  { unfold round32, nearest. rewrite <- (round_0 radix2 (FLT_exp (-149) 24) ZnearestE).
    apply round_le; [typeclasses eauto..|lra]. }
  destruct (W (round32 (x - m)) (nearest_in_format (-149) 24 _) Z) as [F E]. split; [exact F|].
  pose proof (addition_error (-149) 24 x (- m) X (generic_format_opp _ _ _ M)) as A.
  change (nearest (-149) 24 (x + - m)) with (round32 (x - m)) in A. change (x + - m) with (x - m) in A.
  fold u in A. set (z := round32 (x - m)) in *. set (d := m - x).
  replace (x - m) with (- d) in * by (unfold d; ring).
  assert (D : 0 <= d) by (unfold d; lra). rewrite Rabs_Ropp, (Rabs_pos_eq d) in A by easy.
  replace (z - - d) with (z + d) in A by ring.
  pose proof (exp_of_rounded d z D A) as B. pose proof u_pos as UP. pose proof u_small as US.
  assert (SP : 0 <= speck) by (apply pow_le; lra). pose proof (exp_pos (- d)) as EP.
  assert (Q : exp z <= exp (- d) + Rabs (exp z - exp (- d))) by (pose proof (Rle_abs (exp z - exp (- d))); lra).
  replace (exp32 z - exp (- d)) with ((exp32 z - exp z) + (exp z - exp (- d))) by ring.
  eapply Rle_trans; [apply Rabs_triang|].
  set (e := Rabs (exp z - exp (- d))) in *. set (g := exp (- d)) in *.
  assert (P : 0 <= d * u * g) by (repeat apply Rmult_le_pos; lra).
  assert (2 * u * exp z <= 2 * u * (g + e)) by (apply Rmult_le_compat_l; lra).
  assert (u * e <= / 16777216 * ((1 + / 8192) * d * u * g + speck)).
  { apply Rmult_le_compat; try lra. unfold e. apply Rabs_pos. }
  lra.
Qed.

Lemma gamma_le h : INR h <= 1000 -> gamma u h <= (INR h + / 8) * u.
Proof.
  intros H. pose proof (pos_INR h) as N. pose proof u_pos as UP. pose proof u_small as US. unfold gamma.
  set (n := INR h) in *. assert (n * u <= 1000 * u) by (apply Rmult_le_compat_r; lra).
  assert (I : 0 < 1 - n * u) by lra. apply Rmult_le_reg_r with (1 - n * u); [easy|].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
  assert ((n + / 8) * (n * u) <= (n + / 8) * (1000 * u)) by (apply Rmult_le_compat_l; lra).
  assert (n * u * 1000 <= 1000 * 1000 * u) by nra.
  assert ((n + / 8) * (1000 * u) <= / 8) by nra.
  assert (((n + / 8) * (n * u)) * u <= / 8 * u) by (apply Rmult_le_compat_r; lra).
  lra.
Qed.

Section Row.
Variables (exp32 : R -> R) (L : nat) (m : R) (row : list R).
Variable exp_ok : within_one_ulp exp32.
Variable row_ok : Forall binary32 row.
Variable m_in : In m row.
Variable m_max : forall x, In x row -> x <= m.
Variable lanes : (0 < L)%nat.
Variable short : (Z.of_nat (length row) <= 2 ^ 22)%Z.

Let C := INR (length row).
Let h := lane_height (length row) L.
Let S := total m row.
Variable flat : INR h <= 1000.

Lemma m_ok : binary32 m.
Proof. rewrite Forall_forall in row_ok. now apply row_ok. Qed.

Lemma total_ge_1 : 1 <= S.
Proof.
  unfold S, total. clear - m_in. induction row as [|x l IH]; [easy|]. simpl.
  assert (P : 0 <= sum (map (fun x => exp (x - m)) l)).
  { clear. induction l as [|x l IH]; simpl; [lra|]. pose proof (exp_pos (x - m)). lra. }
  destruct m_in as [->|H].
  - replace (m - m) with 0 by ring. rewrite exp_0. lra.
  - specialize (IH H). pose proof (exp_pos (x - m)). lra.
Qed.

Lemma C_bounds : 1 <= C <= 4194304.
Proof.
  unfold C. split.
  - destruct row; [easy|]. simpl length. rewrite S_INR. pose proof (pos_INR (length l)). lra.
  - rewrite INR_IZR_INZ. apply IZR_le in short. exact short.
Qed.

Lemma ln_C : 0 <= ln C <= 22.
Proof.
  pose proof C_bounds as [B1 B2]. split.
  - rewrite <- ln_1. destruct B1 as [B1|B1]; [left; apply ln_increasing; lra|right; now rewrite <- B1].
  - rewrite <- (ln_exp 22). assert (E : 4194304 <= exp 22).
    { pose proof (exp_m_power 22) as P. rewrite exp_Ropp in P. replace (INR 22) with 22 in P by (simpl; lra).
      pose proof (exp_pos 22) as X. apply Rinv_le_contravar in P; [|now apply Rinv_0_lt_compat].
      rewrite Rinv_inv in P. rewrite <- Rinv_pow, Rinv_inv in P by lra. simpl in P. lra. }
    destruct (Rle_lt_or_eq_dec C (exp 22)) as [Q|Q]; [lra|left; apply ln_increasing; lra|right; now rewrite Q].
Qed.

Let terms := map (exponential exp32 m) row.

Lemma terms_binary32 : Forall binary32 terms.
Proof.
  unfold terms. rewrite Forall_map, Forall_forall. intros x I.
  apply exponential_error; auto using m_ok. exact (proj1 (Forall_forall _ _) row_ok x I).
Qed.

(** The distances that are subtracted. *)
Let weighted := sum (map (fun x => (m - x) * exp (x - m)) row).

Lemma terms_error :
  Rabs (sum terms - S) <= u * ((1 + / 4096) * weighted + 2 * S) + C * absolute /\
  sum_abs terms <= S + (u * ((1 + / 4096) * weighted + 2 * S) + C * absolute).
Proof.
  unfold terms, S, total, weighted, C, sum_abs.
  assert (G : forall l, (forall x, In x l -> In x row) ->
    Rabs (sum (map (exponential exp32 m) l) - sum (map (fun x => exp (x - m)) l)) <=
      u * ((1 + / 4096) * sum (map (fun x => (m - x) * exp (x - m)) l) + 2 * sum (map (fun x => exp (x - m)) l)) + INR (length l) * absolute /\
    sum (map Rabs (map (exponential exp32 m) l)) <= sum (map (fun x => exp (x - m)) l) +
      (u * ((1 + / 4096) * sum (map (fun x => (m - x) * exp (x - m)) l) + 2 * sum (map (fun x => exp (x - m)) l)) + INR (length l) * absolute)).
  { induction l as [|x l IH]; intros I.
    - simpl. rewrite Rminus_0_r, Rabs_R0. lra.
    - destruct IH as [I1 I2]; [intros y Y; apply I; now right|].
      assert (X : In x row) by (apply I; now left).
      destruct (exponential_error exp32 m x exp_ok) as [_ E]; [exact (proj1 (Forall_forall _ _) row_ok x X)|exact m_ok|auto|].
      unfold relative in E.
      cbn [map sum fold_right length]. rewrite S_INR. unfold sum in *. cbn [fold_right].
      set (a := fold_right Rplus 0 (map (exponential exp32 m) l)) in *.
      set (b := fold_right Rplus 0 (map (fun x => exp (x - m)) l)) in *.
      set (w := fold_right Rplus 0 (map (fun x => (m - x) * exp (x - m)) l)) in *.
      set (e := exponential exp32 m x) in *. set (g := exp (x - m)) in *.
      replace (e + a - (g + b)) with ((e - g) + (a - b)) by ring.
      pose proof (Rabs_triang (e - g) (a - b)).
      assert (Rabs e <= g + Rabs (e - g)).
      { replace e with (g + (e - g)) at 1 by ring. eapply Rle_trans; [apply Rabs_triang|].
        rewrite (Rabs_pos_eq g); [lra|apply Rlt_le, exp_pos]. }
      split; lra. }
  apply G. easy.
Qed.

Lemma weighted_le : weighted <= S * ln C.
Proof.
  pose proof (weighted_distances (map (fun x => m - x) row)) as W. rewrite !map_map, map_length in W.
  rewrite (map_ext (fun x => exp (- (m - x))) (fun x => exp (x - m))) in W by (intros; f_equal; ring).
  rewrite (map_ext (fun x => (m - x) * exp (- (m - x))) (fun x => (m - x) * exp (x - m))) in W by (intros; do 2 f_equal; ring).
  apply W, total_ge_1.
Qed.

Lemma absolute_small : 0 <= absolute /\ 4194304 * absolute <= / 100 * u.
Proof.
  unfold absolute, speck, eta, u. split.
  - pose proof (bpow_gt_0 radix2 (-150)). assert (0 <= (/ 2) ^ 200) by (apply pow_le; lra). lra.
  - replace ((/ 2) ^ 200) with (bpow radix2 (-200)).
    2: { change (-200)%Z with (- Z.of_nat 200)%Z. rewrite bpow_opp, <- Rinv_pow by lra. f_equal.
         rewrite <- IZR_Zpower by lia. simpl. lra. }
    assert (bpow radix2 (-200) <= bpow radix2 (-150)) by (apply bpow_le; lia).
    assert (bpow radix2 (-150) <= bpow radix2 (-64)) by (apply bpow_le; lia).
    assert (bpow radix2 (-64) = bpow radix2 (-24) * / 1099511627776).
    { change (-64)%Z with (-24 + -40)%Z. rewrite bpow_plus. f_equal. }
    pose proof (bpow_gt_0 radix2 (-24)). lra.
Qed.

(** The sum of the exponentials. *)
Lemma total_error : Rabs (lane_sum R 0 add32 L terms - S) <= S * ((ln C + INR h + 9 / 4) * u).
Proof.
  pose proof total_ge_1 as S1. pose proof C_bounds as [_ CB]. pose proof ln_C as [l0 l22].
  pose proof terms_error as [T1 T2]. pose proof weighted_le as WL. pose proof absolute_small as [A0 A1].
  pose proof u_pos as UP. pose proof u_small as US. pose proof (pos_INR h) as H0.
  pose proof (lane_sum_error binary32 add32 u L terms binary32_addition zero_binary32 terms_binary32 lanes) as E.
  assert (len : length terms = length row) by apply map_length. rewrite len in E. fold h in E.
  assert (HU : INR h * u <= 1000 * u) by (apply Rmult_le_compat_r; lra).
  specialize (E ltac:(lra)).
  assert (B : u * ((1 + / 4096) * weighted + 2 * S) + C * absolute <= S * ((ln C + 2 + / 50) * u)).
  { assert (C * absolute <= 4194304 * absolute) by (apply Rmult_le_compat_r; lra).
    assert (/ 100 * u * 1 <= / 100 * u * S) by (apply Rmult_le_compat_l; lra).
    assert (u * weighted <= u * (S * ln C)) by (apply Rmult_le_compat_l; lra).
    assert (u * (S * ln C) <= u * (S * 22)) by (apply Rmult_le_compat_l; [lra|apply Rmult_le_compat_l; lra]).
    lra. }
  set (b := u * ((1 + / 4096) * weighted + 2 * S) + C * absolute) in *.
  replace (lane_sum R 0 add32 L terms - S) with ((lane_sum R 0 add32 L terms - sum terms) + (sum terms - S)) by ring.
  eapply Rle_trans; [apply Rabs_triang|].
  assert (G : gamma u h * sum_abs terms <= (INR h + / 8) * u * (S * (1 + / 100000))).
  { apply Rmult_le_compat.
    - unfold gamma. apply Rmult_le_pos; [apply Rmult_le_pos; lra|apply Rlt_le, Rinv_0_lt_compat; lra].
    - apply sum_abs_nonneg.
    - now apply gamma_le.
    - assert ((ln C + 2 + / 50) * u <= 25 * u) by (apply Rmult_le_compat_r; lra).
      assert (S * ((ln C + 2 + / 50) * u) <= S * (/ 100000)) by (apply Rmult_le_compat_l; lra). lra. }
  assert ((INR h + / 8) * / 100000 <= / 90) by lra.
  assert (S * u * ((INR h + / 8) * / 100000) <= S * u * / 90) by (apply Rmult_le_compat_l; [apply Rmult_le_pos|]; lra).
  assert (0 <= S * u) by (apply Rmult_le_pos; lra).
  lra.
Qed.

(** Its reciprocal. *)
Lemma reciprocal_error :
  Rabs (round32 (1 / lane_sum R 0 add32 L terms) - / S) <= / S * ((ln C + INR h + 7 / 2) * u).
Proof.
  pose proof total_ge_1 as S1. pose proof total_error as T. pose proof C_bounds as [_ CB]. pose proof ln_C as [l0 l22].
  pose proof u_pos as UP. pose proof u_small as US. pose proof (pos_INR h) as H0.
  set (s := lane_sum R 0 add32 L terms) in *. set (q := ln C + INR h) in *.
  assert (Q : 0 <= q <= 1022) by (unfold q; lra).
  assert (QU : (q + 9 / 4) * u <= / 16000).
  { apply Rle_trans with (1025 * / 16777216); [apply Rmult_le_compat; lra|lra]. }
  assert (SU : S * ((q + 9 / 4) * u) <= S * / 16000) by (apply Rmult_le_compat_l; lra).
  apply Rabs_le_inv in T. assert (s0 : 15999 / 16000 * S <= s) by lra.
  assert (I : / s <= / S * (1 + / 15000)).
  { apply Rmult_le_reg_r with s; [lra|]. rewrite Rinv_l by lra.
    apply Rle_trans with (/ S * (1 + / 15000) * (15999 / 16000 * S)).
    - replace (/ S * (1 + / 15000) * (15999 / 16000 * S)) with ((1 + / 15000) * (15999 / 16000)) by (field; lra). lra.
    - apply Rmult_le_compat_l; [apply Rmult_le_pos; [apply Rlt_le, Rinv_0_lt_compat|]; lra|exact s0]. }
  assert (PS : 0 < / S) by (apply Rinv_0_lt_compat; lra). assert (Ps : 0 < / s) by (apply Rinv_0_lt_compat; lra).
  assert (D : Rabs (/ s - / S) <= / S * ((q + 9 / 4) * u * (1 + / 15000))).
  { replace (/ s - / S) with ((S - s) * (/ s * / S)) by (field; lra).
    rewrite Rabs_mult, (Rabs_pos_eq (/ s * / S)) by (apply Rmult_le_pos; lra).
    apply Rle_trans with (S * ((q + 9 / 4) * u) * (/ S * (1 + / 15000) * / S)).
    - apply Rmult_le_compat; [apply Rabs_pos|apply Rmult_le_pos; lra|apply Rabs_le; lra|apply Rmult_le_compat_r; lra].
    - right. field. lra. }
  assert (N : Rabs (round32 (1 / s) - / s) <= u * / s).
  { replace (1 / s) with (/ s) by (field; lra). eapply Rle_trans; [apply rounding_error|].
    rewrite (Rabs_pos_eq (/ s)) by lra. apply Rmax_lub; [lra|].
    assert (SB : S <= 4194304).
    { eapply Rle_trans; [|exact CB]. unfold S, total, C. clear - m_max.
      assert (G : forall l, (forall x, In x l -> In x row) -> sum (map (fun x => exp (x - m)) l) <= INR (length l)).
      { induction l as [|x l IH]; intros I; [simpl; lra|]. simpl length. rewrite S_INR. simpl.
        specialize (IH ltac:(intros y Y; apply I; now right)).
        assert (exp (x - m) <= 1).
        { rewrite <- exp_0. specialize (m_max x (I x (or_introl eq_refl))).
          destruct (Rle_lt_or_eq_dec (x - m) 0) as [X|X]; [lra|left; now apply exp_increasing|right; now rewrite X]. }
        lra. }
      apply G. easy. }
    assert (/ 8388608 <= / s) by (apply Rinv_le_contravar; lra).
    assert (eta <= u * / 8388608).
    { unfold eta, u. replace (-150)%Z with (-24 + -126)%Z by ring. rewrite bpow_plus.
      apply Rmult_le_compat_l; [apply bpow_ge_0|]. replace (/ 8388608) with (bpow radix2 (-23)) by (simpl; lra).
      apply bpow_le. lia. }
    assert (u * / 8388608 <= u * / s) by (apply Rmult_le_compat_l; lra). lra. }
  replace (round32 (1 / s) - / S) with ((round32 (1 / s) - / s) + (/ s - / S)) by ring.
  eapply Rle_trans; [apply Rabs_triang|].
  assert (u * / s <= u * (/ S * (1 + / 15000))) by (apply Rmult_le_compat_l; lra).
  assert (0 <= / S * u) by (apply Rmult_le_pos; lra).
  assert (/ S * u * (q + 9 / 4) <= / S * u * 1025) by (apply Rmult_le_compat_l; lra).
  lra.
Qed.

Lemma softmax_within x : In x row ->
  Rabs (softmax32 exp32 L m row x - softmax m row x) <=
  (m - x + ln C + INR h + 7) * u * softmax m row x + 4 * eta.
Proof.
  intros X. pose proof total_ge_1 as S1. pose proof ln_C as [l0 l22].
  pose proof u_pos as UP. pose proof u_small as US. pose proof (pos_INR h) as H0. pose proof eta_pos as NP.
  destruct (exponential_error exp32 m x exp_ok) as [_ E]; [exact (proj1 (Forall_forall _ _) row_ok x X)|exact m_ok|auto|].
  pose proof reciprocal_error as Rc. unfold softmax32. fold terms.
  set (r := round32 (1 / lane_sum R 0 add32 L terms)) in *. set (e := exponential exp32 m x) in *.
  unfold softmax. fold S. set (q := ln C + INR h) in *. set (d := m - x) in *.
  assert (D : 0 <= d) by (unfold d; specialize (m_max x X); lra).
  replace (x - m) with (- d) in * by (unfold d; ring).
  pose proof (distance_times_exp d D) as DE. pose proof (exp_pos (- d)) as EP. set (g := exp (- d)) in *.
  assert (PS : 0 < / S <= 1) by (split; [apply Rinv_0_lt_compat; lra|rewrite <- Rinv_1; apply Rinv_le_contravar; lra]).
  assert (Q : 0 <= q <= 1022) by (unfold q; lra).
  assert (QU : (q + 7 / 2) * u <= / 16000).
  { apply Rle_trans with (1026 * / 16777216); [apply Rmult_le_compat; lra|lra]. }
  set (rho := (q + 7 / 2) * u) in *.
  assert (RH : 0 <= rho) by (apply Rmult_le_pos; lra).
  pose proof absolute_small as [A0 _].
  pose proof (rounding_error (e * r)) as N.
  assert (Rr : Rabs r <= / S * (1 + rho)).
  { replace r with (/ S + (r - / S)) by ring. eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_pos_eq (/ S)); lra. }
  unfold relative in E.
  assert (P1 : Rabs (e * r - g / S) <= Rabs (e - g) * (/ S * (1 + rho)) + g * (/ S * rho)).
  { replace (e * r - g / S) with ((e - g) * r + g * (r - / S)) by (field; lra).
    eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult, (Rabs_pos_eq g) by lra.
    apply Rplus_le_compat; apply Rmult_le_compat_l; try lra. apply Rabs_pos. }
  set (y := g / S). assert (Y : y = g * / S) by reflexivity. assert (PY : 0 <= y) by (rewrite Y; apply Rmult_le_pos; lra).
  assert (P2 : Rabs (e - g) * (/ S * (1 + rho)) <=
               ((1 + / 4096) * d + 2) * u * y * (1 + / 16000) + absolute * (1 + / 16000)).
  { apply Rle_trans with ((((1 + / 4096) * d + 2) * u * g + absolute) * (/ S * (1 + / 16000))).
    - apply Rmult_le_compat; [apply Rabs_pos|apply Rmult_le_pos; lra|exact E|apply Rmult_le_compat_l; lra].
    - assert (absolute * / S <= absolute * 1) by (apply Rmult_le_compat_l; lra). rewrite Y. lra. }
  assert (DY : d * / 2048 * y <= / 4 * y + speck).
  { assert (SP : 0 <= speck) by (apply pow_le; lra). rewrite Y.
    apply Rle_trans with ((/ 4 * g + speck) * / S).
    - rewrite <- Rmult_assoc. apply Rmult_le_compat_r; lra.
    - assert (speck * / S <= speck * 1) by (apply Rmult_le_compat_l; lra). lra. }
  assert (UY : 0 <= u * y) by (apply Rmult_le_pos; lra).
  assert (DUY : u * (d * / 2048 * y) <= u * (/ 4 * y + speck)) by (apply Rmult_le_compat_l; lra).
  assert (P0 : 0 <= d * (u * y)) by (apply Rmult_le_pos; lra).
  assert (SP : speck <= / 1000 * eta).
  { unfold speck, eta. replace ((/ 2) ^ 200) with (bpow radix2 (-200)).
    2: { change (-200)%Z with (- Z.of_nat 200)%Z. rewrite bpow_opp, <- Rinv_pow by lra. f_equal.
         rewrite <- IZR_Zpower by lia. simpl. lra. }
    replace (-200)%Z with (-50 + -150)%Z by ring. rewrite bpow_plus.
    apply Rmult_le_compat_r; [apply bpow_ge_0|]. simpl. lra. }
  assert (SP0 : 0 <= speck) by (apply pow_le; lra).
  assert (USP : u * speck <= 1 * speck) by (apply Rmult_le_compat_r; lra).
  assert (Z1 : Rabs (e * r - y) <= (d + q + 23 / 4 + / 100) * u * y + (2 + / 100) * eta).
  { eapply Rle_trans; [exact P1|]. unfold absolute in P2. unfold rho in *. rewrite Y in *. lra. }
  replace (round32 (e * r) - y) with ((round32 (e * r) - e * r) + (e * r - y)) by ring.
  eapply Rle_trans; [apply Rabs_triang|].
  assert (Z2 : Rabs (e * r) <= y + Rabs (e * r - y)).
  { replace (e * r) with (y + (e * r - y)) at 1 by ring. eapply Rle_trans; [apply Rabs_triang|].
    rewrite (Rabs_pos_eq y); lra. }
  assert (Z3 : u * Rabs (e * r) <= u * (y + ((d + q + 23 / 4 + / 100) * u * y + (2 + / 100) * eta)))
    by (apply Rmult_le_compat_l; lra).
  assert (Z4 : u * (d * (u * y)) <= / 16777216 * (d * (u * y))) by (apply Rmult_le_compat_r; lra).
  assert (Z5 : u * ((q + 23 / 4 + / 100) * (u * y)) <= / 16777216 * (1030 * (u * y))).
  { apply Rmult_le_compat; [lra|apply Rmult_le_pos; lra|lra|apply Rmult_le_compat_r; lra]. }
  assert (Z6 : u * eta <= / 16777216 * eta) by (apply Rmult_le_compat_r; lra).
  assert (Z7 : Rmax (u * Rabs (e * r)) eta <= u * Rabs (e * r) + eta)
    by (apply Rmax_lub; [lra|pose proof (Rmult_le_pos u (Rabs (e * r)) ltac:(lra) (Rabs_pos _)); lra]).
  unfold q in *. lra.
Qed.
End Row.

(** Softmax of a row of C elements, at most 2^22 of them, whose maximum is m, summed in L lanes, is off by at most
    (m - x + ln C + h + 7)·u·y + 2^-148, where h is the height of the sum, at most 1000. This is the closed form of
    docs/accuracy.md for softmax.forward, before the result is stored.

    Speaks of: softmax.forward 5b8ecb97e5e83a1a7f60aa9f6ec773e0bcf2fd18c2e3b1feb6d3feb46c8fba7b

    Rests on it: bound.Probabilities.Error; op/softmax.forwardBounds. *)
Theorem softmax_forward_error : forall (exp32 : R -> R) (L : nat) (rowmax : list R -> R) (row : list R) (x : R),
  let h := lane_height (length row) L in let m := rowmax row in
  let y32 := softmax_forward.out_y round32 exp32 rowmax (lane_sum R 0 add32 L) row x in
  let y := softmax_forward.exact_y rowmax row x in
  within_one_ulp exp32 ->
  Forall binary32 row -> In m row -> (forall z, In z row -> z <= m) -> In x row ->
  (0 < L)%nat -> (Z.of_nat (length row) <= 2 ^ 22)%Z -> INR h <= 1000 ->
  Rabs (y32 - y) <= (m - x + ln (INR (length row)) + INR h + 7) * u * y + 4 * eta.
Proof.
  intros. unfold y32, y. rewrite softmax_forward_form, softmax_forward_exact.
  change (softmax_form round32 exp32 (lane_sum R 0 add32 L) (rowmax row) row x) with (softmax32 exp32 L m row x).
  change (exp (x - rowmax row) / fold_right Rplus 0 (map (fun z => exp (z - rowmax row)) row)) with (softmax m row x).
  now apply softmax_within.
Qed.
