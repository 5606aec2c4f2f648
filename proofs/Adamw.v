(** * The error of a step of AdamW

    Every operation of the definition adamw.step rounds to binary32; what depends on the step alone is computed
    before, and is exact here. The theorems are about the model that operations/adamw_step.v has from the definition's
    nodes; Models.v shows that the other definitions have the same.

    Speaks of: adamw.step bc8bcd889567dea618625e29989dae92e3967e7942574b863f00cbeedd23a5be, adamw.step.master
    f17b7e6a2d0044b19279a1ccda672439f52959f73a75d570e6d730c5aff03ab0, adamw.step.stochastic
    70c9cd273e851382bb7cff629e0201d15ee906926941dd55f5b8930977cd8ff7 *)

From Coq Require Import Reals Lra Psatz ZArith.
From Flocq Require Import Core.
From Tokitai Require Import Sum Binary32 Gemm Models.
From Tokitai Require operations.adamw_step.
Local Open Scope R_scope.

(** ** The definition, rounded and exact *)

Definition new_m32 (beta1 rest1 m g : R) : R := add32 (round32 (beta1 * m)) (round32 (rest1 * g)).
Definition new_v32 (beta2 rest2 v g : R) : R := add32 (round32 (beta2 * v)) (round32 (round32 (rest2 * g) * g)).
Definition divisor32 (v i eps : R) : R := add32 (round32 (round32 (sqrt v) * i)) eps.
Definition new_w32 (w m d step decay : R) : R :=
  round32 (w - add32 (round32 (step * round32 (m / d))) (round32 (decay * w))).

Definition new_m (beta1 rest1 m g : R) : R := beta1 * m + rest1 * g.
Definition new_v (beta2 rest2 v g : R) : R := beta2 * v + rest2 * g * g.
Definition divisor (v i eps : R) : R := sqrt v * i + eps.
Definition new_w (w m d step decay : R) : R := w - (step * (m / d) + decay * w).

(** ** Lemmas *)

Lemma round_within x : Rabs (round32 x - x) <= u * Rabs x + eta.
Proof.
  eapply Rle_trans; [apply rounding_error|]. pose proof u_pos. pose proof eta_pos. pose proof (Rabs_pos x).
  apply Rmax_lub; nra.
Qed.

Lemma round_from x y e : Rabs (x - y) <= e -> Rabs (round32 x - y) <= (1 + u) * e + u * Rabs y + eta.
Proof.
  intros E. pose proof (round_within x) as W. pose proof u_pos.
  replace (round32 x - y) with ((round32 x - x) + (x - y)) by ring. eapply Rle_trans; [apply Rabs_triang|].
  assert (Rabs x <= Rabs y + e).
  { replace x with (y + (x - y)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
  assert (u * Rabs x <= u * (Rabs y + e)) by (apply Rmult_le_compat_l; lra). lra.
Qed.

Lemma add_from x y a e : binary32 x -> binary32 y -> Rabs (x + y - a) <= e ->
  Rabs (add32 x y - a) <= (1 + u) * e + u * Rabs a.
Proof.
  intros X Y E. pose proof (add_error _ _ _ binary32_addition x y X Y) as W. cbv beta in W.
  fold (add32 x y) in W. pose proof u_pos.
  replace (add32 x y - a) with ((add32 x y - (x + y)) + (x + y - a)) by ring. eapply Rle_trans; [apply Rabs_triang|].
  assert (Rabs (x + y) <= Rabs a + e).
  { replace (x + y) with (a + (x + y - a)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
  assert (u * Rabs (x + y) <= u * (Rabs a + e)) by (apply Rmult_le_compat_l; lra). lra.
Qed.

Lemma round32_binary32 x : binary32 (round32 x).
Proof. apply (nearest_in_format (-149) 24). Qed.

Lemma round32_nonneg x : 0 <= x -> 0 <= round32 x.
Proof.
  intros H. unfold round32, nearest. rewrite <- (round_0 radix2 (FLT_exp (-149) 24) ZnearestE).
  apply round_le; [typeclasses eauto..|exact H].
Qed.

Lemma sums_of_two x y a b e f : Rabs (x - a) <= e -> Rabs (y - b) <= f -> Rabs (x + y - (a + b)) <= e + f.
Proof.
  intros. replace (x + y - (a + b)) with ((x - a) + (y - b)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

(** The first moment is off by at most 2.1·u·(|beta1·m| + |(1-beta1)·grad|) + 2^-148.

    Rests on it: op/adamw.stepBounds; op/adamw.adamwStep.momentError. *)
Theorem adamw_m_error : forall beta1 rest1 m g,
  Rabs (adamw_step.out_m round32 beta1 rest1 m g - adamw_step.exact_m beta1 rest1 m g) <=
  21 / 10 * u * (Rabs (beta1 * m) + Rabs (rest1 * g)) + 4 * eta.
Proof.
  intros. rewrite adamw_m_form. change (adamw_step.exact_m beta1 rest1 m g) with (beta1 * m + rest1 * g).
  change (first_moment round32 beta1 rest1 m g) with (add32 (round32 (beta1 * m)) (round32 (rest1 * g))). pose proof u_pos. pose proof u_small. pose proof eta_pos.
  pose proof (sums_of_two _ _ _ _ _ _ (round_within (beta1 * m)) (round_within (rest1 * g))) as S.
  eapply Rle_trans; [apply (add_from _ _ _ _ (round32_binary32 _) (round32_binary32 _) S)|].
  pose proof (Rabs_triang (beta1 * m) (rest1 * g)).
  pose proof (Rabs_pos (beta1 * m)). pose proof (Rabs_pos (rest1 * g)).
  set (a := Rabs (beta1 * m)) in *. set (b := Rabs (rest1 * g)) in *.
  assert (u * Rabs (beta1 * m + rest1 * g) <= u * (a + b)) by (apply Rmult_le_compat_l; lra).
  assert (u * (u * (a + b)) <= / 16777216 * (u * (a + b))) by (apply Rmult_le_compat_r; [apply Rmult_le_pos|]; lra).
  assert (u * eta <= / 16777216 * eta) by (apply Rmult_le_compat_r; lra).
  assert (0 <= u * (a + b)) by (apply Rmult_le_pos; lra).
  lra.
Qed.

(** The second moment is off by at most 3.1·u·(|beta2·v| + |(1-beta2)·grad^2|) + (2 + |grad|)·2^-149.

    Rests on it: op/adamw.stepBounds. *)
Theorem adamw_v_error : forall beta2 rest2 v g,
  Rabs (adamw_step.out_v round32 beta2 rest2 v g - adamw_step.exact_v beta2 rest2 v g) <=
  31 / 10 * u * (Rabs (beta2 * v) + Rabs (rest2 * g * g)) + (2 + Rabs g) * (2 * eta).
Proof.
  intros. rewrite adamw_v_form. change (adamw_step.exact_v beta2 rest2 v g) with (beta2 * v + rest2 * g * g).
  change (second_moment round32 beta2 rest2 v g) with (add32 (round32 (beta2 * v)) (round32 (round32 (rest2 * g) * g))). pose proof u_pos. pose proof u_small. pose proof eta_pos.
  pose proof (Rabs_pos g) as G.
  assert (A : Rabs (round32 (rest2 * g) * g - rest2 * g * g) <= u * Rabs (rest2 * g * g) + eta * Rabs g).
  { replace (round32 (rest2 * g) * g - rest2 * g * g) with ((round32 (rest2 * g) - rest2 * g) * g) by ring.
    rewrite Rabs_mult, (Rabs_mult (rest2 * g) g). pose proof (round_within (rest2 * g)).
    apply Rle_trans with ((u * Rabs (rest2 * g) + eta) * Rabs g); [apply Rmult_le_compat_r; lra|lra]. }
  apply round_from in A.
  pose proof (sums_of_two _ _ _ _ _ _ (round_within (beta2 * v)) A) as S.
  eapply Rle_trans; [apply (add_from _ _ _ _ (round32_binary32 _) (round32_binary32 _) S)|].
  pose proof (Rabs_triang (beta2 * v) (rest2 * g * g)).
  pose proof (Rabs_pos (beta2 * v)). pose proof (Rabs_pos (rest2 * g * g)).
  set (a := Rabs (beta2 * v)) in *. set (b := Rabs (rest2 * g * g)) in *. set (n := Rabs g) in *.
  assert (u * Rabs (beta2 * v + rest2 * g * g) <= u * (a + b)) by (apply Rmult_le_compat_l; lra).
  assert (I1 : forall x, 0 <= x -> u * x <= / 16777216 * x) by (intros; apply Rmult_le_compat_r; lra).
  assert (0 <= u * a) by (apply Rmult_le_pos; lra). assert (0 <= u * b) by (apply Rmult_le_pos; lra).
  assert (0 <= eta * n) by (apply Rmult_le_pos; lra).
  assert (0 <= u * (u * b)) by (apply Rmult_le_pos; lra). assert (0 <= u * (eta * n)) by (apply Rmult_le_pos; lra).
  pose proof (I1 (u * a) ltac:(lra)). pose proof (I1 (u * b) ltac:(lra)). pose proof (I1 (u * (u * b)) ltac:(lra)).
  pose proof (I1 eta ltac:(lra)). pose proof (I1 (eta * n) ltac:(lra)). pose proof (I1 (u * (eta * n)) ltac:(lra)).
  lra.
Qed.

(** ** The weight *)

Lemma sqrt_error a l x y : 0 <= a <= 1 -> 0 <= l -> 0 <= x -> 0 <= y -> Rabs (x - y) <= a * y + l ->
  Rabs (sqrt x - sqrt y) <= a / 2 * (1 + a) * sqrt y + sqrt l.
Proof.
  intros A L X Y H. pose proof (sqrt_pos x) as PX. pose proof (sqrt_pos y) as PY. pose proof (sqrt_pos l) as PL.
  pose proof (sqrt_sqrt x X) as QX. pose proof (sqrt_sqrt y Y) as QY. pose proof (sqrt_sqrt l L) as QL.
  set (p := sqrt x) in *. set (q := sqrt y) in *. set (r := sqrt l) in *.
  apply Rabs_le_inv in H. set (b := a / 2 * (1 + a)).
  assert (B : 0 <= b <= a) by (unfold b; nra).
  assert (BB : (1 - b) * (1 - b) <= 1 - a) by (unfold b in *; nra).
  apply Rabs_le. split.
  - destruct (Rle_or_lt (q * (1 - b)) r) as [C|C]; [nra|].
    assert (D : (q * (1 - b) - r) * (q * (1 - b) - r) <= p * p).
    { assert ((q * (1 - b)) * (q * (1 - b)) <= y * (1 - a)).
      { rewrite <- QY. replace (q * (1 - b) * (q * (1 - b))) with (q * q * ((1 - b) * (1 - b))) by ring.
        apply Rmult_le_compat_l; [nra|exact BB]. }
      nra. }
    assert (q * (1 - b) - r <= p) by nra. nra.
  - assert (D : p * p <= (q * (1 + b) + r) * (q * (1 + b) + r)).
    { assert (y * (1 + a) <= q * (1 + b) * (q * (1 + b))).
      { rewrite <- QY. replace (q * (1 + b) * (q * (1 + b))) with (q * q * ((1 + b) * (1 + b))) by ring.
        apply Rmult_le_compat_l; [nra|]. unfold b in *. nra. }
      assert (0 <= q * (1 + b) * r) by (repeat apply Rmult_le_pos; lra). nra. }
    assert (0 <= q * (1 + b) + r) by (assert (0 <= q * (1 + b)) by (apply Rmult_le_pos; lra); lra).
    assert (p <= q * (1 + b) + r) by nra. lra.
Qed.

Lemma second_order x : 0 <= x -> 0 <= u * x <= / 16777216 * x.
Proof.
  intros. pose proof u_pos. pose proof u_small. split; [apply Rmult_le_pos; lra|apply Rmult_le_compat_r; lra].
Qed.

Lemma sqrt_of_lost n : 0 <= n -> eta <= u * sqrt ((2 + n) * (2 * eta)).
Proof.
  intros N. apply Rle_trans with (u * bpow radix2 (-74)).
  - unfold eta, u. rewrite <- bpow_plus. apply bpow_le. lia.
  - apply Rmult_le_compat_l; [apply Rlt_le, u_pos|].
    rewrite <- (sqrt_Rsqr (bpow radix2 (-74))) by apply bpow_ge_0. apply sqrt_le_1_alt.
    unfold Rsqr. rewrite <- bpow_plus. change (-74 + -74)%Z with (2 + -150)%Z. rewrite bpow_plus.
    change (bpow radix2 2) with 4. fold eta. pose proof eta_pos. nra.
Qed.

(** What the divisor loses: relative to itself, and where squares underflow. *)
Lemma divisor_error V v n i eps :
  0 <= V -> 0 <= v -> 0 <= n -> 0 <= i -> 0 <= eps -> binary32 eps ->
  let lost := (2 + n) * (2 * eta) in
  Rabs (v - V) <= 31 / 10 * u * V + lost ->
  Rabs (divisor32 v i eps - divisor V i eps) <=
  457 / 100 * u * divisor V i eps + (1 + 8 * u) * (i * sqrt lost + 2 * eta).
Proof.
  intros HV Hv Hn Hi He Fe lost E. pose proof u_pos as UP. pose proof u_small as US. pose proof eta_pos as NP.
  assert (HL : 0 <= lost) by (unfold lost; nra).
  pose proof (sqrt_of_lost n Hn) as SL. fold lost in SL.
  pose proof (sqrt_error (31 / 10 * u) lost v V ltac:(lra) HL Hv HV E) as Q.
  pose proof (sqrt_pos V) as PA. pose proof (sqrt_pos lost) as PL.
  unfold divisor32, divisor. set (A := sqrt V) in *. set (l := sqrt lost) in *.
  assert (Q1 : Rabs (sqrt v - A) <= 156 / 100 * u * A + l).
  { eapply Rle_trans; [exact Q|]. apply Rplus_le_compat_r, Rmult_le_compat_r; [exact PA|]. nra. }
  apply round_from in Q1. set (s1 := round32 (sqrt v)) in *.
  rewrite (Rabs_pos_eq A PA) in Q1.
  assert (PP : 0 <= A * i) by (apply Rmult_le_pos; lra). assert (PQ : 0 <= l * i) by (apply Rmult_le_pos; lra).
  assert (Q2 : Rabs (s1 * i - A * i) <= 2561 / 1000 * u * (A * i) + (1 + 21 / 10 * u) * (l * i)).
  { replace (s1 * i - A * i) with ((s1 - A) * i) by ring. rewrite Rabs_mult, (Rabs_pos_eq i Hi).
    apply Rle_trans with (((1 + u) * (156 / 100 * u * A + l) + u * A + eta) * i); [apply Rmult_le_compat_r; lra|].
    assert (eta * i <= u * l * i) by (apply Rmult_le_compat_r; lra).
    pose proof (second_order _ PP) as P1. pose proof (second_order (u * (A * i)) ltac:(lra)) as P2.
    pose proof (second_order _ PQ) as P3. lra. }
  apply round_from in Q2. set (s2 := round32 (s1 * i)) in *. rewrite (Rabs_pos_eq _ PP) in Q2.
  assert (Q3 : Rabs (s2 + eps - (A * i + eps)) <=
               (1 + u) * (2561 / 1000 * u * (A * i) + (1 + 21 / 10 * u) * (l * i)) + u * (A * i) + eta).
  { replace (s2 + eps - (A * i + eps)) with (s2 - A * i) by ring. exact Q2. }
  apply add_from in Q3; [|apply round32_binary32|exact Fe].
  eapply Rle_trans; [exact Q3|]. rewrite (Rabs_pos_eq (A * i + eps)) by lra.
  set (P := A * i) in *. replace (i * l) with (l * i) by ring. set (R := l * i) in *.
  pose proof (second_order P PP) as P1. pose proof (second_order (u * P) ltac:(lra)) as P2.
  pose proof (second_order (u * (u * P)) ltac:(lra)) as P2'.
  pose proof (second_order R PQ) as P3. pose proof (second_order (u * R) ltac:(lra)) as P4.
  pose proof (second_order (u * (u * R)) ltac:(lra)) as P4'.
  pose proof (second_order eta ltac:(lra)) as P5. pose proof (second_order eps He) as P6.
  lra.
Qed.

Section Weight.
Variables w M m D d Em step decay delta : R.
Variable w_ok : binary32 w.
Variable m_ok : Rabs (m - M) <= Em.
Variable D_pos : 0 < D.
Variable step_pos : 0 <= step.
Variable delta_ok : 0 <= delta <= / 2.
Let kappa := 457 / 100 * u + (1 + 8 * u) * delta.
Variable d_ok : Rabs (d - D) <= kappa * D.

Let W := / (1 - delta).
Let T := Rabs (M / D).

Lemma W_bounds : 1 <= W <= 2.
Proof.
  unfold W. split.
  - rewrite <- Rinv_1 at 1. apply Rinv_le_contravar; lra.
  - replace 2 with (/ / 2) by field. apply Rinv_le_contravar; lra.
Qed.

Lemma quotient_error : Rabs (m / d - M / D) <= (1 + 19 * u) * (Em / D + T * kappa) * W.
Proof.
  pose proof u_pos as UP. pose proof u_small as US.
  assert (E0 : 0 <= Em) by (eapply Rle_trans; [apply Rabs_pos|exact m_ok]).
  assert (K : 0 <= kappa) by (unfold kappa; nra).
  assert (KW : (1 - delta) <= (1 + 19 * u) * (1 - kappa)) by (unfold kappa; nra).
  assert (K1 : 0 < 1 - kappa) by (unfold kappa; nra).
  assert (DL : D * (1 - kappa) <= d) by (apply Rabs_le_inv in d_ok; lra).
  assert (DP : 0 < D * (1 - kappa)) by (apply Rmult_lt_0_compat; lra).
  replace (m / d - M / D) with (((m - M) + M / D * (D - d)) * / d) by (field; lra).
  assert (PT : 0 <= T) by apply Rabs_pos.
  assert (N : Rabs ((m - M) + M / D * (D - d)) <= Em + T * (kappa * D)).
  { eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult. fold T. rewrite (Rabs_minus_sym D d).
    apply Rplus_le_compat; [exact m_ok|]. apply Rmult_le_compat_l; lra. }
  rewrite Rabs_mult, (Rabs_pos_eq (/ d)) by (apply Rlt_le, Rinv_0_lt_compat; lra).
  assert (I : / d <= / D * ((1 + 19 * u) * W)).
  { apply Rle_trans with (/ (D * (1 - kappa))); [apply Rinv_le_contravar; lra|].
    rewrite Rinv_mult. apply Rmult_le_compat_l; [apply Rlt_le, Rinv_0_lt_compat; lra|]. unfold W.
    apply Rmult_le_reg_r with (1 - kappa); [easy|]. rewrite Rinv_l by lra.
    apply Rmult_le_reg_r with (1 - delta); [lra|].
    replace ((1 + 19 * u) * / (1 - delta) * (1 - kappa) * (1 - delta)) with ((1 + 19 * u) * (1 - kappa)) by (field; lra).
    lra. }
  apply Rle_trans with ((Em + T * (kappa * D)) * (/ D * ((1 + 19 * u) * W))).
  - apply Rmult_le_compat; [apply Rabs_pos|apply Rlt_le, Rinv_0_lt_compat; lra|exact N|exact I].
  - right. field. lra.
Qed.

Lemma weight_error :
  Rabs (new_w32 w m d step decay - new_w w M D step decay) <=
  1001 / 1000 * (step * Em / D + Rabs (step * (M / D)) * (76 / 10 * u + delta)) / (1 - delta) +
  21 / 10 * u * Rabs (decay * w) + 11 / 10 * u * Rabs (new_w w M D step decay) + (1 + step) * (4 * eta).
Proof.
  pose proof u_pos as UP. pose proof u_small as US. pose proof eta_pos as NP. pose proof W_bounds as [W1 W2].
  assert (E0 : 0 <= Em) by (eapply Rle_trans; [apply Rabs_pos|exact m_ok]).
  assert (PT : 0 <= T) by apply Rabs_pos.
  pose proof quotient_error as Q. set (Z := (1 + 19 * u) * (Em / D + T * kappa) * W) in *.
  apply round_from in Q. fold T in Q. set (n1 := round32 (m / d)) in *.
  assert (Q2 : Rabs (step * n1 - step * (M / D)) <= step * ((1 + u) * Z + u * T + eta)).
  { rewrite <- Rmult_minus_distr_l, Rabs_mult, (Rabs_pos_eq step) by easy. apply Rmult_le_compat_l; lra. }
  apply round_from in Q2. rewrite Rabs_mult, (Rabs_pos_eq step) in Q2 by easy. fold T in Q2.
  pose proof (sums_of_two _ _ _ _ _ _ Q2 (round_within (decay * w))) as Q3.
  apply add_from in Q3; [|apply round32_binary32..].
  set (n4 := add32 _ _) in *.
  assert (F4 : binary32 (- n4)) by (apply generic_format_opp, round32_binary32).
  set (x := new_w w M D step decay).
  assert (Q4 : Rabs (w + - n4 - x) <= Rabs (n4 - (step * (M / D) + decay * w))).
  { right. rewrite <- Rabs_Ropp. f_equal. unfold x, new_w. ring. }
  pose proof (Rle_trans _ _ _ Q4 Q3) as Q5. apply add_from in Q5; [|exact w_ok|exact F4].
  unfold new_w32. fold n1. fold n4. change (round32 (w - n4)) with (add32 w (- n4)).
  eapply Rle_trans; [exact Q5|].
  rewrite (Rabs_mult step), (Rabs_pos_eq step) by easy. fold T.
  assert (TR : Rabs (step * (M / D) + decay * w) <= step * T + Rabs (decay * w)).
  { eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_mult, (Rabs_pos_eq step) by easy. fold T. lra. }
  set (c := Rabs (decay * w)) in *. assert (C0 : 0 <= c) by apply Rabs_pos.
  assert (X0 : 0 <= Rabs x) by apply Rabs_pos.
  assert (TR1 : u * Rabs (step * (M / D) + decay * w) <= u * (step * T + c)) by (apply Rmult_le_compat_l; lra).
  set (t := Rabs (step * (M / D) + decay * w)) in *. assert (T0 : 0 <= t) by apply Rabs_pos.
  set (sT := step * T) in *. assert (S1 : 0 <= sT) by (apply Rmult_le_pos; lra).
  set (sE := step * (Em / D)).
  assert (S2 : 0 <= sE).
  { apply Rmult_le_pos; [lra|]. apply Rmult_le_pos; [lra|]. apply Rlt_le, Rinv_0_lt_compat; lra. }
  set (sZ := step * Z).
  assert (G : 0 <= W * sT) by (apply Rmult_le_pos; lra). assert (GE : 0 <= W * sE) by (apply Rmult_le_pos; lra).
  assert (GD : 0 <= W * sT * delta) by (apply Rmult_le_pos; lra).
  pose proof (second_order _ G) as G1. pose proof (second_order _ GE) as G2. pose proof (second_order _ GD) as G3.
  pose proof (second_order (u * (W * sT)) ltac:(lra)) as G4. pose proof (second_order (u * (W * sT * delta)) ltac:(lra)) as G5.
  assert (SZ : sZ = (1 + 19 * u) * (W * sE + 457 / 100 * (u * (W * sT)) + (W * sT * delta) + 8 * (u * (W * sT * delta)))).
  { unfold sZ, Z, sE, sT, kappa. ring. }
  assert (SZ1 : 0 <= sZ <= (1 + / 800000) * (W * sE + 457 / 100 * (u * (W * sT)) + (1 + / 1000000) * (W * sT * delta))).
  { rewrite SZ. split; lra. }
  assert (ST : sT <= W * sT) by (rewrite <- (Rmult_1_l sT) at 1; apply Rmult_le_compat_r; lra).
  assert (ST1 : u * sT <= u * (W * sT)) by (apply Rmult_le_compat_l; lra).
  pose proof (second_order sT S1) as H1. pose proof (second_order (u * sT) ltac:(lra)) as H2.
  pose proof (second_order (u * (u * sT)) ltac:(lra)) as H3. pose proof (second_order (u * (u * (u * sT))) ltac:(lra)) as H4.
  pose proof (second_order c C0) as I1. pose proof (second_order (u * c) ltac:(lra)) as I2. pose proof (second_order (u * (u * c)) ltac:(lra)) as I3.
  pose proof (second_order eta ltac:(lra)) as J1. pose proof (second_order (u * eta) ltac:(lra)) as J2.
  assert (SN : 0 <= step * eta) by (apply Rmult_le_pos; lra).
  pose proof (second_order _ SN) as K1. pose proof (second_order (u * (step * eta)) ltac:(lra)) as K2.
  pose proof (second_order (u * (u * (step * eta))) ltac:(lra)) as K3.
  pose proof (second_order sZ ltac:(lra)) as L1. pose proof (second_order (u * sZ) ltac:(lra)) as L2.
  pose proof (second_order (u * (u * sZ)) ltac:(lra)) as L3. pose proof (second_order (u * (u * (u * sZ))) ltac:(lra)) as L4.
  pose proof (second_order (u * t) ltac:(apply Rmult_le_pos; lra)) as M1.
  assert (UX : 0 <= u * Rabs x) by (apply Rmult_le_pos; lra).
  replace (1001 / 1000 * (step * Em / D + sT * (76 / 10 * u + delta)) / (1 - delta))
    with (1001 / 1000 * (W * sE + 76 / 10 * (u * (W * sT)) + W * sT * delta)) by (unfold W, sE; field; lra).
  apply Rle_trans with ((1 + u) * ((1 + u) * ((1 + u) * ((1 + u) * sZ + u * sT + step * eta) + u * sT + eta + (u * c + eta)) + u * t) + u * Rabs x).
  - right. unfold sZ, sT. ring.
  - lra.
Qed.
End Weight.

(** The new weight, where v is not negative and underflow has not made the divisor useless (delta <= 1/2). The letters
    are those of docs/accuracy.md: q = lr/bc1·m'/d.

    Rests on it: op/adamw.stepBounds. *)
Theorem adamw_weight_error : forall w m v g beta1 rest1 beta2 rest2 step i eps decay,
  let m' := adamw_step.exact_m beta1 rest1 m g in
  let d := adamw_step.d (fun z => z) beta2 rest2 i eps v g in
  let w' := adamw_step.exact_weight beta1 rest1 beta2 rest2 step i eps decay w m v g in
  let bound_m := 21 / 10 * u * (Rabs (beta1 * m) + Rabs (rest1 * g)) + 4 * eta in
  let q := step * (m' / d) in
  let delta := (i * sqrt ((2 + Rabs g) * (2 * eta)) + 2 * eta) / d in
  binary32 w -> binary32 eps ->
  0 <= beta2 -> 0 <= rest2 -> 0 <= v -> 0 <= i -> 0 <= eps -> 0 <= step -> 0 < d -> delta <= / 2 ->
  Rabs (adamw_step.out_weight round32 beta1 rest1 beta2 rest2 step i eps decay w m v g - w') <=
  1001 / 1000 * (step * bound_m / d + Rabs q * (76 / 10 * u + delta)) / (1 - delta) +
  21 / 10 * u * Rabs (decay * w) + 11 / 10 * u * Rabs w' + (1 + step) * (4 * eta).
Proof.
  intros w m v g beta1 rest1 beta2 rest2 step i eps decay m' d w' bound_m q delta
    Fw Fe B2 R2 HV HI HE HS HD HDl.
  rewrite adamw_weight_form.
  change (Rabs (new_w32 w (new_m32 beta1 rest1 m g) (divisor32 (new_v32 beta2 rest2 v g) i eps) step decay - new_w w m' d step decay) <=
    1001 / 1000 * (step * bound_m / d + Rabs q * (76 / 10 * u + delta)) / (1 - delta) +
    21 / 10 * u * Rabs (decay * w) + 11 / 10 * u * Rabs (new_w w m' d step decay) + (1 + step) * (4 * eta)).
  pose proof u_pos as UP. pose proof eta_pos as NP. pose proof (Rabs_pos g) as PG.
  assert (P1 : 0 <= beta2 * v) by (apply Rmult_le_pos; lra).
  assert (P2 : 0 <= rest2 * g * g) by (rewrite Rmult_assoc; apply Rmult_le_pos; [lra|apply Rle_0_sqr]).
  assert (PV : 0 <= new_v beta2 rest2 v g) by (unfold new_v; lra).
  assert (Pv : 0 <= new_v32 beta2 rest2 v g).
  { apply round32_nonneg. apply Rplus_le_le_0_compat; apply round32_nonneg; [exact P1|].
    destruct (Rle_or_lt 0 g) as [G|G].
    - apply Rmult_le_pos; [apply round32_nonneg, Rmult_le_pos; lra|exact G].
    - replace (round32 (rest2 * g) * g) with (- round32 (rest2 * g) * - g) by ring.
      apply Rmult_le_pos; [|lra]. unfold round32, nearest. rewrite <- round_NE_opp.
      apply (round32_nonneg (- (rest2 * g))). rewrite Ropp_mult_distr_r. apply Rmult_le_pos; lra. }
  pose proof (adamw_v_error beta2 rest2 v g) as EV. rewrite (Rabs_pos_eq _ P1), (Rabs_pos_eq _ P2) in EV.
  change (Rabs (new_v32 beta2 rest2 v g - new_v beta2 rest2 v g) <=
    31 / 10 * u * new_v beta2 rest2 v g + (2 + Rabs g) * (2 * eta)) in EV.
  pose proof (divisor_error _ _ (Rabs g) i eps PV Pv PG HI HE Fe EV) as ED. change (divisor (new_v beta2 rest2 v g) i eps) with d in ED.
  assert (D0 : 0 <= delta).
  { unfold delta. apply Rmult_le_pos; [|apply Rlt_le, Rinv_0_lt_compat; lra].
    apply Rplus_le_le_0_compat; [apply Rmult_le_pos; [lra|apply sqrt_pos]|lra]. }
  apply weight_error; try easy.
  - apply adamw_m_error.
  - eapply Rle_trans; [exact ED|]. right. unfold delta. field. lra.
Qed.
