(** * The error of GELU

    The definition gelu.forward is x·s(t(x)), where s is the logistic function and t(x) = 2·sqrt(2/pi)·(x + 0.044715·x^3),
    computed as e = exp(-t(a)), r = 1/(1+e), a = min(|x|, 11): the result is x·r for x >= 0 and -a·e·r for x < 0. Every
    step rounds to binary32; the exponential is within one unit in the last place, the reciprocal within three
    quarters of one. The theorem is about the model that operations/gelu_forward.v has from the definition's nodes. *)

From Coq Require Import Reals Lra Psatz ZArith.
From Flocq Require Import Core.
From Tokitai Require Import Sum Binary32 Gemm Entropy Adamw Models.
From Tokitai Require operations.gelu_forward.
Local Open Scope R_scope.

(** ** The definition, exact and rounded *)

Definition t_of (a : R) : R := a * (cubic * (a * a) + slope).
Definition gelu (x : R) : R :=
  let a := held x in let e := exp (- t_of a) in let r := / (1 + e) in
  if Rlt_dec x 0 then - (a * e) * r else x * r.

Definition t32 (a : R) : R := round32 (a * fma (round32 cubic) (round32 (a * a)) (round32 slope)).
Definition gelu32 (exp32 recip32 : R -> R) (x : R) : R :=
  let a := held x in let e := exp32 (- t32 a) in let r := recip32 (add32 1 e) in
  if Rlt_dec x 0 then round32 (- round32 (a * e) * r) else round32 (x * r).

(** What is taken of the two functions. *)
Definition exp_within_one_ulp (exp32 : R -> R) : Prop :=
  forall z, binary32 z -> -128 <= z <= 0 -> binary32 (exp32 z) /\ Rabs (exp32 z - exp z) <= 2 * u * exp z + 2 * eta.
Definition recip_within_three_quarters (recip32 : R -> R) : Prop :=
  forall z, binary32 z -> / 2 <= z <= 4 -> Rabs (recip32 z - / z) <= 3 / 2 * u * / z.

(** ** The argument *)

Lemma slope_bounds : 7 / 5 <= slope <= 164 / 100.
Proof.
  unfold slope. pose proof PI_4 as P4. pose proof PI2_3_2 as P3. assert (P0 : 3 < PI) by lra.
  assert (L : / 2 <= 2 / PI).
  { apply Rmult_le_reg_r with PI; [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  assert (U : 2 / PI <= 67 / 100).
  { apply Rmult_le_reg_r with PI; [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. }
  pose proof (sqrt_pos (2 / PI)) as S. pose proof (sqrt_sqrt (2 / PI) ltac:(lra)) as Q.
  set (q := sqrt (2 / PI)) in *. assert (7 / 10 <= q) by nra. assert (q <= 82 / 100) by nra. lra.
Qed.

Lemma cubic_bounds : 6 / 100 <= cubic <= 74 / 1000.
Proof. pose proof slope_bounds. unfold cubic. lra. Qed.

Lemma held_bounds x : 0 <= held x <= 11.
Proof. unfold held. pose proof (Rabs_pos x). unfold Rmin. destruct (Rle_dec _ _); lra. Qed.

Lemma eta_tiny : eta <= / 1000000000 * u.
Proof.
  unfold eta, u. replace (-150)%Z with (-126 + -24)%Z by ring. rewrite bpow_plus.
  apply Rmult_le_compat_r; [apply bpow_ge_0|]. apply Rle_trans with (bpow radix2 (-30)); [apply bpow_le; lia|].
  simpl. lra.
Qed.

Lemma round_normal x : / 1000 <= x -> Rabs (round32 x - x) <= u * x.
Proof.
  intros H. eapply Rle_trans; [apply rounding_error|]. pose proof u_pos. pose proof eta_tiny.
  rewrite Rabs_pos_eq by lra. apply Rmax_lub; [lra|].
  assert (u * / 1000 <= u * x) by (apply Rmult_le_compat_l; lra). lra.
Qed.

(** t and its derivative: an odd polynomial of degree 3 with a rounded coefficient. *)
Lemma cubic_error c a : 6 / 100 <= c <= / 4 -> 0 <= a <= 11 -> let p := a * (c * (a * a) + slope) in
  Rabs (round32 (a * fma (round32 c) (round32 (a * a)) (round32 slope)) - p) <= 400004 / 100000 * u * p + 2 * eta /\ 0 <= p <= 352.
Proof.
  intros CB A. cbv zeta. pose proof slope_bounds as SB. pose proof u_pos as UP. pose proof u_small as US.
  pose proof eta_pos as NP. pose proof eta_tiny as NT.
  pose proof (round_normal slope ltac:(lra)) as ES. pose proof (round_normal c ltac:(lra)) as EC.
  unfold fma.
  assert (A2 : 0 <= a * a <= 121) by nra.
  pose proof (round_within (a * a)) as EA. rewrite (Rabs_pos_eq (a * a)) in EA by lra.
  set (s' := round32 slope) in *. set (c' := round32 c) in *. set (q := round32 (a * a)) in *. set (b := a * a) in *.
  assert (CQ : Rabs (c' * q - c * b) <= 200001 / 100000 * u * (c * b) + / 2 * eta).
  { replace (c' * q - c * b) with ((c' - c) * b + c' * (q - b)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult, (Rabs_pos_eq b) by lra.
    assert (C1 : Rabs c' <= c * (1 + u)).
    { replace c' with (c + (c' - c)) by ring. eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_pos_eq c); lra. }
    assert (Rabs (c' - c) * b <= u * c * b) by (apply Rmult_le_compat_r; lra).
    assert (Rabs c' * Rabs (q - b) <= c * (1 + u) * (u * b + eta)) by (apply Rmult_le_compat; try apply Rabs_pos; lra).
    assert (CB0 : 0 <= c * b) by (apply Rmult_le_pos; lra).
    pose proof (second_order _ CB0) as O1. pose proof (second_order (u * (c * b)) ltac:(lra)) as O2.
    assert (c * eta <= / 4 * eta) by (apply Rmult_le_compat_r; lra).
    pose proof (second_order (c * eta) ltac:(apply Rmult_le_pos; lra)) as O3. lra. }
  assert (PB : 7 / 5 <= c * b + slope <= 32) by nra.
  assert (EP : Rabs (c' * q + s' - (c * b + slope)) <= 200002 / 100000 * u * (c * b + slope)).
  { pose proof (sums_of_two _ _ _ _ _ _ CQ ES) as S. eapply Rle_trans; [exact S|].
    assert (u * (7 / 5) <= u * slope) by (apply Rmult_le_compat_l; lra).
    assert (0 <= u * (c * b)) by (apply Rmult_le_pos; [lra|apply Rmult_le_pos; lra]). lra. }
  set (p := c * b + slope) in *.
  apply round_from in EP. rewrite (Rabs_pos_eq p) in EP by lra.
  set (p' := round32 (c' * q + s')) in *.
  assert (UPp : u * (7 / 5) <= u * p) by (apply Rmult_le_compat_l; lra).
  assert (EP' : Rabs (p' - p) <= 300003 / 100000 * u * p).
  { pose proof (second_order (u * p) ltac:(apply Rmult_le_pos; lra)) as O. lra. }
  assert (EQ : Rabs (a * p' - a * p) <= 300003 / 100000 * u * (a * p)).
  { rewrite <- Rmult_minus_distr_l, Rabs_mult, (Rabs_pos_eq a) by lra.
    apply Rle_trans with (a * (300003 / 100000 * u * p)); [apply Rmult_le_compat_l; lra|lra]. }
  assert (AP : 0 <= a * p <= 352) by nra.
  apply round_from in EQ. rewrite (Rabs_pos_eq (a * p)) in EQ by lra.
  split; [|exact AP]. eapply Rle_trans; [exact EQ|].
  pose proof (second_order (u * (a * p)) ltac:(apply Rmult_le_pos; lra)) as O.
  pose proof (second_order _ (proj1 AP)) as O'. lra.
Qed.

Lemma t_error a : 0 <= a <= 11 -> Rabs (t32 a - t_of a) <= 400004 / 100000 * u * t_of a + 2 * eta /\ 0 <= t_of a <= 121.
Proof.
  intros A. pose proof slope_bounds as SB. pose proof cubic_bounds as CB. destruct (cubic_error cubic a ltac:(lra) A) as [E _].
  split; [exact E|]. unfold t_of. assert (0 <= a * a <= 121) by nra. assert (0 <= cubic * (a * a) + slope <= 11) by nra. nra.
Qed.

Lemma t32_nonneg a : 0 <= a -> 0 <= t32 a.
Proof.
  intros A. pose proof slope_bounds. pose proof cubic_bounds. unfold t32, fma.
  apply round32_nonneg, Rmult_le_pos; [exact A|]. apply round32_nonneg, Rplus_le_le_0_compat.
  - apply Rmult_le_pos; apply round32_nonneg; [lra|]. apply Rmult_le_pos; lra.
  - apply round32_nonneg. lra.
Qed.

(** ** The exponential and the reciprocal *)

Lemma exponential_within exp32 a : exp_within_one_ulp exp32 -> 0 <= a <= 11 ->
  let t := t_of a in
  0 <= t <= 121 /\ binary32 (exp32 (- t32 a)) /\
  Rabs (exp32 (- t32 a) - exp (- t)) <= u * (40004 / 10000 * t + 20003 / 10000) * exp (- t) + 2 * eta.
Proof.
  intros W A t. destruct (t_error a A) as [E T]. fold t in E, T. pose proof (t32_nonneg a ltac:(lra)) as N.
  pose proof u_pos as UP. pose proof u_small as US. pose proof eta_pos as NP. pose proof eta_tiny as NT.
  pose proof (second_order t ltac:(lra)) as O.
  set (h := t32 a) in *. set (dt := Rabs (h - t)) in *.
  assert (D1 : dt <= u * (400004 / 100000 * t + / 10000)) by lra.
  assert (D2 : dt <= / 30000) by lra.
  assert (H128 : h <= 128).
  { assert (h - t <= dt) by apply Rle_abs. lra. }
  assert (F : binary32 (- h)) by (apply generic_format_opp, round32_binary32).
  destruct (W (- h) F ltac:(lra)) as [Fe Ee]. split; [exact T|]. split; [exact Fe|].
  pose proof (exp_pos (- t)) as PE. set (g := exp (- t)) in *.
  assert (X : exp (- h) = g * exp (- (h - t))) by (unfold g; rewrite <- exp_plus; f_equal; ring).
  pose proof (exp_near (- (h - t))) as B. rewrite Rabs_Ropp in B. fold dt in B. specialize (B ltac:(lra)).
  set (w := exp (- (h - t))) in *. assert (DT : 0 <= dt) by apply Rabs_pos.
  assert (B1 : Rabs (w - 1) <= dt * (1 + / 15000)).
  { eapply Rle_trans; [exact B|]. apply Rmult_le_compat_l; lra. }
  assert (B2 : w <= 1 + / 20000) by (pose proof (Rle_abs (w - 1)); lra).
  assert (B3 : Rabs (w - 1) <= u * (400031 / 100000 * t + 2 / 10000)) by lra.
  replace (exp32 (- h) - g) with ((exp32 (- h) - exp (- h)) + g * (w - 1)) by (rewrite X; ring).
  eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult, (Rabs_pos_eq g) by lra.
  assert (C1 : g * Rabs (w - 1) <= g * (u * (400031 / 100000 * t + 2 / 10000))) by (apply Rmult_le_compat_l; lra).
  assert (C2 : exp (- h) <= g * (1 + / 20000)) by (rewrite X; apply Rmult_le_compat_l; lra).
  assert (C3 : u * exp (- h) <= u * (g * (1 + / 20000))) by (apply Rmult_le_compat_l; lra).
  assert (C4 : 0 <= u * g) by (apply Rmult_le_pos; lra). assert (C5 : 0 <= u * g * t) by (apply Rmult_le_pos; lra).
  lra.
Qed.

Section Parts.
Variables (recip32 : R -> R) (t E e : R).
Variable recip_ok : recip_within_three_quarters recip32.
Variable t_ok : 0 <= t <= 121.
Variable E_is : E = exp (- t).
Variable e_ok : binary32 e.
Let k := 40004 / 10000 * t + 20003 / 10000.
Variable e_error : Rabs (e - E) <= u * k * E + 2 * eta.

Lemma E_bounds : 0 < E <= 1.
Proof.
  rewrite E_is. split; [apply exp_pos|]. rewrite <- exp_0. destruct (Rle_lt_or_eq_dec 0 t) as [H|H]; [lra| |].
  - left. apply exp_increasing. lra.
  - rewrite <- H. right. f_equal. ring.
Qed.

Lemma e_bounds : - (2 * eta) <= e <= 2 /\ Rabs (e - E) <= / 30000 * E + 2 * eta.
Proof.
  pose proof E_bounds as EB. pose proof u_pos as UP. pose proof u_small as US. pose proof eta_pos. pose proof eta_tiny.
  assert (K : u * k <= / 30000) by (unfold k; pose proof (second_order t ltac:(lra)); lra).
  assert (u * k * E <= / 30000 * E) by (apply Rmult_le_compat_r; lra).
  apply Rabs_le_inv in e_error as B. split; [lra|]. lra.
Qed.

Lemma recip_error : Rabs (recip32 (add32 1 e) - / (1 + e)) <= 25001 / 10000 * u * / (1 + e).
Proof.
  pose proof e_bounds as [EB _]. pose proof u_pos as UP. pose proof u_small as US. pose proof eta_pos. pose proof eta_tiny.
  assert (one : binary32 1).
  { apply generic_format_FLT. exists (Float radix2 1 0); simpl; [unfold F2R; simpl; ring|lia|lia]. }
  pose proof (add_error _ _ _ binary32_addition 1 e one e_ok) as A. cbv beta in A. fold (add32 1 e) in A.
  rewrite (Rabs_pos_eq (1 + e)) in A by lra. set (z := 1 + e) in *. set (g := add32 1 e) in *.
  assert (Z : 99 / 100 <= z <= 3) by (unfold z; lra).
  apply Rabs_le_inv in A as B. assert (UZ : u * z <= / 100000 * z) by (apply Rmult_le_compat_r; lra).
  assert (G : / 2 <= g <= 4) by lra.
  assert (Fg : binary32 g) by apply round32_binary32.
  pose proof (recip_ok g Fg G) as Q.
  assert (Pz : 0 < / z) by (apply Rinv_0_lt_compat; lra). assert (Pg : 0 < / g) by (apply Rinv_0_lt_compat; lra).
  assert (I : / g <= / z * (1 + / 50000)).
  { apply Rmult_le_reg_r with g; [lra|]. rewrite Rinv_l by lra.
    apply Rle_trans with (/ z * (1 + / 50000) * (99999 / 100000 * z)).
    - replace (/ z * (1 + / 50000) * (99999 / 100000 * z)) with ((1 + / 50000) * (99999 / 100000)) by (field; lra). lra.
    - apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|lra]. }
  assert (D : Rabs (/ g - / z) <= u * (/ z * (1 + / 50000))).
  { replace (/ g - / z) with ((z - g) * / z * / g) by (field; lra).
    rewrite !Rabs_mult, (Rabs_pos_eq (/ z)), (Rabs_pos_eq (/ g)) by lra. rewrite (Rabs_minus_sym z g).
    apply Rle_trans with (u * z * / z * (/ z * (1 + / 50000))).
    - apply Rmult_le_compat; [apply Rmult_le_pos; [apply Rabs_pos|lra]|lra| |exact I]. apply Rmult_le_compat_r; lra.
    - right. field. lra. }
  replace (recip32 g - / z) with ((recip32 g - / g) + (/ g - / z)) by ring.
  eapply Rle_trans; [apply Rabs_triang|].
  assert (u * / g <= u * (/ z * (1 + / 50000))) by (apply Rmult_le_compat_l; lra).
  assert (0 <= u * / z) by (apply Rmult_le_pos; lra). lra.
Qed.
End Parts.

(** ** The result *)

Lemma square_le_exp t : 0 <= t -> (1 + t / 2) * (1 + t / 2) <= exp t.
Proof.
  intros H. replace t with (t / 2 + t / 2) at 3 by field. rewrite exp_plus.
  pose proof (exp_ineq1_le (t / 2)). apply Rmult_le_compat; lra.
Qed.

(** (4t+2)·e/(1+e) is a small number. *)
Lemma weight_of_t t : 0 <= t -> (40004 / 10000 * t + 20003 / 10000) * exp (- t) <= 244 / 100 * (1 + exp (- t)).
Proof.
  intros H. pose proof (square_le_exp t H) as S. pose proof (exp_pos (- t)) as P.
  assert (X : exp t * exp (- t) = 1) by (rewrite <- exp_plus, Rplus_opp_r; apply exp_0).
  assert (Q : 40004 / 10000 * t + 20003 / 10000 <= 244 / 100 * (1 + exp t)).
  { assert (0 <= (t - 128 / 100) * (t - 128 / 100)) by apply Rle_0_sqr. lra. }
  apply Rle_trans with (244 / 100 * (1 + exp t) * exp (- t)); [apply Rmult_le_compat_r; lra|].
  replace (244 / 100 * (1 + exp t) * exp (- t)) with (244 / 100 * (exp (- t) + exp t * exp (- t))) by ring. rewrite X. lra.
Qed.

Section Result.
Variables (recip32 : R -> R) (t E e : R).
Variable recip_ok : recip_within_three_quarters recip32.
Variable t_ok : 0 <= t <= 121.
Variable E_is : E = exp (- t).
Variable e_ok : binary32 e.
Let k := 40004 / 10000 * t + 20003 / 10000.
Variable e_error : Rabs (e - E) <= u * k * E + 2 * eta.

Let r := recip32 (add32 1 e).

Lemma inverse_le : 0 < / (1 + e) <= / (1 + E) * (1 + / 10000) /\ / (1 + e) <= 1 + / 10000.
Proof.
  pose proof (E_bounds t E t_ok E_is) as EB. pose proof (e_bounds t E e t_ok E_is e_error) as [B1 B2].
  pose proof eta_pos. pose proof eta_tiny. pose proof u_small. apply Rabs_le_inv in B2.
  assert (L : 99991 / 100000 * (1 + E) <= 1 + e) by lra.
  assert (I : / (1 + e) <= / (1 + E) * (1 + / 10000)).
  { apply Rmult_le_reg_r with (1 + e); [lra|]. rewrite Rinv_l by lra.
    apply Rle_trans with (/ (1 + E) * (1 + / 10000) * (99991 / 100000 * (1 + E))).
    - replace (/ (1 + E) * (1 + / 10000) * (99991 / 100000 * (1 + E))) with ((1 + / 10000) * (99991 / 100000)) by (field; lra). lra.
    - apply Rmult_le_compat_l; [apply Rmult_le_pos; [apply Rlt_le, Rinv_0_lt_compat; lra|lra]|exact L]. }
  split; [split; [apply Rinv_0_lt_compat; lra|exact I]|].
  eapply Rle_trans; [exact I|]. assert (/ (1 + E) <= / 1) by (apply Rinv_le_contravar; lra). rewrite Rinv_1 in *. lra.
Qed.

Lemma logistic_error : Rabs (r - / (1 + E)) <= 4943 / 1000 * u * / (1 + E) /\ / 2 <= / (1 + E) <= 1.
Proof.
  pose proof (E_bounds t E t_ok E_is) as EB. pose proof (recip_error recip32 t E e recip_ok t_ok E_is e_ok e_error) as Q.
  pose proof inverse_le as [[I0 I1] I2]. fold r in Q. pose proof u_pos as UP. pose proof u_small as US.
  pose proof eta_pos as NP. pose proof eta_tiny as NT.
  pose proof (weight_of_t t ltac:(lra)) as WT. rewrite <- E_is in WT. fold k in WT.
  pose proof (e_bounds t E e t_ok E_is e_error) as [EB' _].
  set (G := / (1 + E)) in *. assert (PG : / 2 <= G <= 1).
  { unfold G. split; [apply Rinv_le_contravar; lra|rewrite <- Rinv_1; apply Rinv_le_contravar; lra]. }
  set (H := / (1 + e)) in *.
  assert (D : Rabs (H - G) <= 2441 / 1000 * u * G).
  { replace (H - G) with ((E - e) * (H * G)) by (unfold H, G; field; lra).
    rewrite Rabs_mult, (Rabs_minus_sym E e), (Rabs_pos_eq (H * G)) by (apply Rmult_le_pos; lra).
    assert (K1 : u * k * E <= u * (244 / 100 * (1 + E))).
    { rewrite Rmult_assoc. apply Rmult_le_compat_l; lra. }
    apply Rle_trans with ((u * (244 / 100 * (1 + E)) + 2 * eta) * (G * (1 + / 10000) * G)).
    - apply Rmult_le_compat; [apply Rabs_pos|apply Rmult_le_pos; lra|lra|apply Rmult_le_compat_r; lra].
    - assert (EG : (1 + E) * G = 1) by (unfold G; field; lra).
      replace ((u * (244 / 100 * (1 + E)) + 2 * eta) * (G * (1 + / 10000) * G))
        with (u * (244 / 100) * ((1 + E) * G) * (1 + / 10000) * G + 2 * eta * (1 + / 10000) * (G * G)) by ring.
      rewrite EG. assert (GG : G * G <= 1 * G) by (apply Rmult_le_compat_r; lra).
      assert (eta * (G * G) <= eta * (1 * G)) by (apply Rmult_le_compat_l; lra).
      assert (eta * G <= / 1000000000 * u * G) by (apply Rmult_le_compat_r; lra).
      assert (0 <= u * G) by (apply Rmult_le_pos; lra). lra. }
  split; [|exact PG].
  replace (r - G) with ((r - H) + (H - G)) by ring. eapply Rle_trans; [apply Rabs_triang|].
  assert (u * H <= u * (G * (1 + / 10000))) by (apply Rmult_le_compat_l; lra).
  assert (0 <= u * G) by (apply Rmult_le_pos; lra). lra.
Qed.

Lemma positive_error x : 0 <= x ->
  Rabs (round32 (x * r) - x * / (1 + E)) <= 6 * u * (x * / (1 + E)) + eta.
Proof.
  intros X. destruct logistic_error as [RG PG]. pose proof u_pos as UP. pose proof u_small as US.
  set (G := / (1 + E)) in *.
  assert (XR : Rabs (x * r - x * G) <= 4943 / 1000 * u * (x * G)).
  { rewrite <- Rmult_minus_distr_l, Rabs_mult, (Rabs_pos_eq x) by easy.
    apply Rle_trans with (x * (4943 / 1000 * u * G)); [apply Rmult_le_compat_l; lra|lra]. }
  assert (Y0 : 0 <= x * G) by (apply Rmult_le_pos; lra).
  apply round_from in XR. rewrite (Rabs_pos_eq _ Y0) in XR. eapply Rle_trans; [exact XR|].
  pose proof (second_order _ Y0) as O. pose proof (second_order (u * (x * G)) ltac:(lra)) as O'. lra.
Qed.

Lemma negative_error a : 0 <= a <= 11 ->
  Rabs (round32 (- round32 (a * e) * r) - - (a * E) * / (1 + E)) <=
  (4 * t + 7) * u * (a * E * / (1 + E)) + 64 * eta.
Proof.
  intros A. pose proof (E_bounds t E t_ok E_is) as EB. pose proof (recip_error recip32 t E e recip_ok t_ok E_is e_ok e_error) as Q.
  pose proof inverse_le as [[I0 I1] I2]. fold r in Q. pose proof u_pos as UP. pose proof u_small as US.
  pose proof eta_pos as NP. pose proof eta_tiny as NT.
  pose proof (e_bounds t E e t_ok E_is e_error) as [EB' _].
  set (G := / (1 + E)) in *. assert (PG : 0 <= G <= 1).
  { unfold G. split; [apply Rlt_le, Rinv_0_lt_compat; lra|rewrite <- Rinv_1; apply Rinv_le_contravar; lra]. }
  set (H := / (1 + e)) in *. set (Y := E * G). assert (Y0 : 0 <= Y <= 1) by (unfold Y; split; [apply Rmult_le_pos; lra|nra]).
  assert (KB : 0 <= k <= 487) by (unfold k; lra).
  assert (D : Rabs (e * H - Y) <= u * k * Y * (1 + / 10000) + 21 / 10 * eta).
  { replace (e * H - Y) with ((e - E) * (H * G)) by (unfold Y, H, G; field; lra).
    rewrite Rabs_mult, (Rabs_pos_eq (H * G)) by (apply Rmult_le_pos; lra).
    apply Rle_trans with ((u * k * E + 2 * eta) * ((1 + / 10000) * G)).
    - apply Rmult_le_compat; [apply Rabs_pos|apply Rmult_le_pos; lra|lra|apply Rmult_le_compat_r; lra].
    - assert (eta * G <= eta * 1) by (apply Rmult_le_compat_l; lra). unfold Y. lra. }
  assert (KU : u * k <= / 30000) by (pose proof (second_order k ltac:(lra)); lra).
  assert (KY : u * k * Y <= / 30000 * Y) by (apply Rmult_le_compat_r; lra).
  assert (HB : Rabs (e * H) <= (1 + / 20000) * Y + 21 / 10 * eta).
  { replace (e * H) with (Y + (e * H - Y)) by ring. eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_pos_eq Y); lra. }
  assert (RB : Rabs r <= H * (1 + / 100000)).
  { replace r with (H + (r - H)) by ring. eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_pos_eq H) by lra.
    assert (u * H <= / 16777216 * H) by (apply Rmult_le_compat_r; lra). lra. }
  pose proof (round_within (a * e)) as N. set (n := round32 (a * e)) in *.
  assert (AH : Rabs (a * e) * H = a * Rabs (e * H)).
  { rewrite !Rabs_mult, (Rabs_pos_eq a), (Rabs_pos_eq H) by lra. ring. }
  assert (T1 : Rabs ((n - a * e) * r) <= (u * (a * Rabs (e * H)) + eta * (1 + / 10000)) * (1 + / 100000)).
  { rewrite Rabs_mult. apply Rle_trans with ((u * Rabs (a * e) + eta) * (H * (1 + / 100000))).
    - apply Rmult_le_compat; try apply Rabs_pos; lra.
    - rewrite <- AH. assert (eta * H <= eta * (1 + / 10000)) by (apply Rmult_le_compat_l; lra). lra. }
  assert (T2 : Rabs (a * e * (r - H)) <= 25001 / 10000 * u * (a * Rabs (e * H))).
  { rewrite Rabs_mult, <- AH. apply Rle_trans with (Rabs (a * e) * (25001 / 10000 * u * H)); [apply Rmult_le_compat_l; [apply Rabs_pos|exact Q]|lra]. }
  assert (T3 : Rabs (a * (e * H - Y)) <= a * (u * k * Y * (1 + / 10000) + 21 / 10 * eta)).
  { rewrite Rabs_mult, (Rabs_pos_eq a) by lra. apply Rmult_le_compat_l; lra. }
  assert (HA : a * Rabs (e * H) <= a * ((1 + / 20000) * Y + 21 / 10 * eta)) by (apply Rmult_le_compat_l; lra).
  assert (UHA : u * (a * Rabs (e * H)) <= u * (a * ((1 + / 20000) * Y + 21 / 10 * eta))) by (apply Rmult_le_compat_l; lra).
  assert (AY : 0 <= a * Y) by (apply Rmult_le_pos; lra). assert (AN : 0 <= a * eta <= 11 * eta) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  pose proof (second_order _ AY) as O1. pose proof (second_order (a * eta) ltac:(lra)) as O2.
  pose proof (second_order (u * (a * Y)) ltac:(lra)) as O3. pose proof (second_order (u * (a * eta)) ltac:(lra)) as O4.
  assert (KAY : 0 <= k * (u * (a * Y)) <= 487 * (u * (a * Y))) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  assert (S : Rabs (n * r - a * Y) <= (k + 355 / 100) * (u * (a * Y)) + 26 * eta).
  { replace (n * r - a * Y) with ((n - a * e) * r + (a * e * (r - H) + a * (e * H - Y))) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. pose proof (Rabs_triang (a * e * (r - H)) (a * (e * H - Y))). lra. }
  assert (S' : Rabs (- n * r - - (a * Y)) <= (k + 355 / 100) * (u * (a * Y)) + 26 * eta).
  { replace (- n * r - - (a * Y)) with (- (n * r - a * Y)) by ring. now rewrite Rabs_Ropp. }
  apply round_from in S'. rewrite Rabs_Ropp, (Rabs_pos_eq _ AY) in S'.
  replace (- (a * E) * G) with (- (a * Y)) by (unfold Y; ring). replace (a * E * G) with (a * Y) by (unfold Y; ring).
  eapply Rle_trans; [exact S'|].
  assert (UK : u * (k * (u * (a * Y))) <= / 16777216 * (487 * (u * (a * Y)))).
  { apply Rmult_le_compat; lra. }
  pose proof (second_order eta ltac:(lra)) as O5.
  assert (TA : 0 <= t * (u * (a * Y)) <= 121 * (u * (a * Y))) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  unfold k in *. lra.
Qed.
End Result.

(** For x >= 0, GELU is off by at most 6·u·y + 2^-150; for x < 0 by at most (4t + 7)·u·|y| + 2^-144, where t is t(a) and
    a = min(|x|, 11). These are the closed forms of docs/accuracy.md for gelu.forward, before the result is stored. The
    exact value is that of the definition, whose a is held at 11.

    Speaks of: gelu.forward 3f04a41a8f7f32a533bfc6d5abdec926962abde36b535b9a519999ad4753cf4f

    Rests on it: op/gelu.forwardBounds. *)
Theorem gelu_forward_error : forall (exp32 recip32 : R -> R) (x : R),
  let y32 := gelu_forward.out_y round32 exp32 recip32 x in let y := gelu_forward.exact_y x in
  exp_within_one_ulp exp32 -> recip_within_three_quarters recip32 ->
  (0 <= x -> Rabs (y32 - y) <= 6 * u * y + eta) /\
  (x < 0 -> Rabs (y32 - y) <= (4 * t_of (held x) + 7) * u * Rabs y + 64 * eta).
Proof.
  intros exp32 recip32 x y32 y We Wr. unfold y32, y, gelu_forward.exact_y. rewrite !gelu_forward_form. clear y32 y.
  change (gelu_form round32 exp32 recip32 x) with (gelu32 exp32 recip32 x). change (gelu_form (fun z => z) exp Rinv x) with (gelu x).
  pose proof (held_bounds x) as A.
  destruct (exponential_within exp32 (held x) We A) as (T & Fe & Ee).
  unfold gelu32, gelu. cbv zeta. set (a := held x) in *. set (t := t_of a) in *. set (e := exp32 (- t32 a)) in *.
  split; intros X.
  - destruct (Rlt_dec x 0) as [N|N]; [lra|]. now apply (positive_error recip32 t (exp (- t)) e).
  - destruct (Rlt_dec x 0) as [N|N]; [|lra].
    pose proof (exp_pos (- t)) as P.
    assert (Y : Rabs (- (a * exp (- t)) * / (1 + exp (- t))) = a * exp (- t) * / (1 + exp (- t))).
    { rewrite Rabs_mult, Rabs_Ropp, !Rabs_pos_eq; [easy|apply Rlt_le, Rinv_0_lt_compat; lra|apply Rmult_le_pos; lra]. }
    rewrite Y. now apply (negative_error recip32 t (exp (- t)) e).
Qed.
