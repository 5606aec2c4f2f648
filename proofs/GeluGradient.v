(** * The error of GELU's gradient

    The definition gelu.backward has e, r and a of gelu.forward, and h = r·a·t'(a), where t'(a) = slope + 3·cubic·a^2. The
    result is dy·(r·(1 + e·h)) for x >= 0 and dy·(r·(e - e·h)) for x < 0. Every step rounds to binary32; sums of a product
    are FMAs. The theorem is about the model that operations/gelu_backward.v has from the definition's nodes. *)

From Coq Require Import Reals Lra Psatz ZArith.
From Flocq Require Import Core.
From Tokitai Require Import Sum Binary32 Gemm Entropy Adamw Models Gelu.
From Tokitai Require operations.gelu_backward.
Local Open Scope R_scope.

(** ** The definition, exact and rounded *)

Definition slope_at (a : R) : R := a * (3 * cubic * (a * a) + slope).
Definition gelu_gradient (dy x : R) : R :=
  let a := held x in let e := exp (- t_of a) in let r := / (1 + e) in let h := r * slope_at a in
  if Rlt_dec x 0 then dy * (r * (- e * h + e)) else dy * (r * (e * h + 1)).

Definition slope_at32 (a : R) : R := round32 (a * fma (round32 (3 * cubic)) (round32 (a * a)) (round32 slope)).
Definition gelu_gradient32 (exp32 recip32 : R -> R) (dy x : R) : R :=
  let a := held x in let e := exp32 (- t32 a) in let r := recip32 (add32 1 e) in let h := round32 (r * slope_at32 a) in
  if Rlt_dec x 0 then round32 (dy * round32 (r * fma (- e) h e)) else round32 (dy * round32 (r * fma e h 1)).

(** ** Steps *)

(** A product of two approximations. *)
Lemma product_error x y X Y p q : Rabs (x - X) <= p -> Rabs (y - Y) <= q -> Rabs (x * y - X * Y) <= p * (Rabs Y + q) + Rabs X * q.
Proof.
  intros P Q. replace (x * y - X * Y) with ((x - X) * y + X * (y - Y)) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. rewrite !Rabs_mult.
  assert (Rabs y <= Rabs Y + q).
  { replace y with (Y + (y - Y)) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
  pose proof (Rabs_pos (x - X)). pose proof (Rabs_pos y). pose proof (Rabs_pos X).
  assert (Rabs (x - X) * Rabs y <= p * (Rabs Y + q)) by (apply Rmult_le_compat; lra).
  assert (Rabs X * Rabs (y - Y) <= Rabs X * q) by (apply Rmult_le_compat_l; lra). lra.
Qed.

Section Gradient.
Variables (recip32 : R -> R) (t E e m M : R).
Variable recip_ok : recip_within_three_quarters recip32.
Variable t_ok : 0 <= t <= 121.
Variable E_is : E = exp (- t).
Variable e_ok : binary32 e.
Let k := 40004 / 10000 * t + 20003 / 10000.
Variable e_error : Rabs (e - E) <= u * k * E + 2 * eta.
Variable M_ok : 0 <= M <= 352.
Variable m_error : Rabs (m - M) <= 400004 / 100000 * u * M + 2 * eta.

Let r := recip32 (add32 1 e).
Let G := / (1 + E).
Let K := G * M.
Let h := round32 (r * m).

Lemma K_bounds : 0 <= K <= 352 /\ / 2 <= G <= 1 /\ Rabs (r - G) <= 4943 / 1000 * u * G.
Proof.
  destruct (logistic_error recip32 t E e recip_ok t_ok E_is e_ok e_error) as [RG PG]. fold r G in RG, PG.
  split; [|split; [exact PG|exact RG]]. unfold K. split; [apply Rmult_le_pos; lra|].
  apply Rle_trans with (1 * M); [apply Rmult_le_compat_r; lra|lra].
Qed.

Lemma h_error : Rabs (h - K) <= 99432 / 10000 * u * K + 4 * eta.
Proof.
  destruct K_bounds as (KB & GB & RG). pose proof u_pos as UP. pose proof u_small as US. pose proof eta_pos as NP. pose proof eta_tiny as NT.
  pose proof (product_error _ _ _ _ _ _ RG m_error) as P. rewrite (Rabs_pos_eq M), (Rabs_pos_eq G) in P by lra. fold K in P.
  assert (GE : 0 <= G * eta <= eta) by (split; [apply Rmult_le_pos; lra|rewrite <- (Rmult_1_l eta) at 2; apply Rmult_le_compat_r; lra]).
  assert (U1 : 0 <= u * K) by (apply Rmult_le_pos; lra).
  pose proof (second_order (u * K) U1) as O1. pose proof (second_order (G * eta) ltac:(lra)) as O2.
  assert (P' : Rabs (r * m - K) <= 89431 / 10000 * u * K + 21 / 10 * eta) by (unfold K in *; lra).
  apply round_from in P'. fold h in P'. rewrite (Rabs_pos_eq K) in P' by lra. eapply Rle_trans; [exact P'|].
  pose proof (second_order eta ltac:(lra)) as O3. lra.
Qed.

(** Times r and dy, whatever is in the brackets. *)
Lemma outer_error dy w W B V : 0 <= B -> Rabs (w - W) <= u * B + 1000 * eta -> u * B <= / 30000 * V -> 0 <= V ->
  Rabs (round32 (dy * round32 (r * w)) - dy * (G * W)) <=
  u * Rabs dy * G * (69431 / 10000 * Rabs W + 1000001 / 1000000 * B + 2 / 10000 * V) + (Rabs dy * 1020 + 1) * eta.
Proof.
  intros B0 H S V0. destruct K_bounds as (KB & GB & RG). pose proof u_pos as UP. pose proof u_small as US. pose proof eta_pos as NP. pose proof eta_tiny as NT.
  pose proof (Rabs_pos W) as W0. pose proof (Rabs_pos dy) as D0.
  pose proof (product_error _ _ _ _ _ _ RG H) as P. rewrite (Rabs_pos_eq G) in P by lra.
  assert (GE : 0 <= G * eta <= eta) by (split; [apply Rmult_le_pos; lra|rewrite <- (Rmult_1_l eta) at 2; apply Rmult_le_compat_r; lra]).
  assert (UG : 0 <= u * G) by (apply Rmult_le_pos; lra).
  assert (UGS : u * G * (u * B) <= u * G * (/ 30000 * V)) by (apply Rmult_le_compat_l; lra).
  assert (GW : 0 <= G * Rabs W) by (apply Rmult_le_pos; lra). assert (GB' : 0 <= G * B) by (apply Rmult_le_pos; lra). assert (GV : 0 <= G * V) by (apply Rmult_le_pos; lra).
  pose proof (second_order (G * eta) ltac:(lra)) as O2.
  assert (P1 : Rabs (r * w - G * W) <= u * G * (4943 / 1000 * Rabs W + B + 4943 / 1000 * (/ 30000 * V)) + 1001 * eta).
  { eapply Rle_trans; [exact P|]. lra. }
  apply round_from in P1. rewrite (Rabs_mult G W), (Rabs_pos_eq G) in P1 by lra.
  set (X := 4943 / 1000 * Rabs W + B + 4943 / 1000 * (/ 30000 * V)) in *.
  assert (X0 : 0 <= X) by (unfold X; lra).
  assert (UGX : 0 <= u * G * X) by (apply Rmult_le_pos; lra).
  pose proof (second_order (u * G * X) UGX) as O3. pose proof (second_order eta ltac:(lra)) as O4.
  assert (P2 : Rabs (round32 (r * w) - G * W) <= u * G * (X * (1 + / 16777216) + Rabs W) + 1003 * eta).
  { eapply Rle_trans; [exact P1|]. lra. }
  set (v := round32 (r * w)) in *.
  assert (P3 : Rabs (dy * v - dy * (G * W)) <= Rabs dy * (u * G * (X * (1 + / 16777216) + Rabs W) + 1003 * eta)).
  { rewrite <- Rmult_minus_distr_l, Rabs_mult. apply Rmult_le_compat_l; lra. }
  apply round_from in P3. rewrite !Rabs_mult, (Rabs_pos_eq G) in P3 by lra.
  eapply Rle_trans; [exact P3|].
  set (Z := u * Rabs dy * G). assert (Z0 : 0 <= Z) by (unfold Z; apply Rmult_le_pos; [apply Rmult_le_pos; lra|lra]).
  assert (ZX : 0 <= Z * X) by (apply Rmult_le_pos; lra). assert (ZW : 0 <= Z * Rabs W) by (apply Rmult_le_pos; lra).
  assert (ZB : 0 <= Z * B) by (apply Rmult_le_pos; lra). assert (ZV : 0 <= Z * V) by (apply Rmult_le_pos; lra).
  pose proof (second_order (Z * X) ZX) as O5. pose proof (second_order (Z * Rabs W) ZW) as O6.
  assert (DE : 0 <= Rabs dy * eta) by (apply Rmult_le_pos; lra). pose proof (second_order _ DE) as O7.
  replace ((1 + u) * (Rabs dy * (u * G * (X * (1 + / 16777216) + Rabs W) + 1003 * eta)) + u * (Rabs dy * (G * Rabs W)) + eta)
    with ((1 + / 16777216) * (Z * X) + Z * Rabs W + (1 + / 16777216) * (u * (Z * X)) + u * (Z * Rabs W) + 1003 * (Rabs dy * eta + u * (Rabs dy * eta)) + Z * Rabs W + eta)
    by (unfold Z; ring).
  assert (EX : Z * X = 4943 / 1000 * (Z * Rabs W) + Z * B + 4943 / 1000 * (/ 30000 * (Z * V))) by (unfold X; field).
  apply Rle_trans with (Z * (69431 / 10000 * Rabs W + 1000001 / 1000000 * B + 2 / 10000 * V) + (Rabs dy * 1020 + 1) * eta); [|unfold Z; lra].
  rewrite EX in *. lra.
Qed.

Lemma k_small : 0 <= k <= 487 /\ u * k <= / 30000.
Proof. unfold k. pose proof (second_order t ltac:(lra)). pose proof u_pos. pose proof u_small. lra. Qed.

Lemma e_size : Rabs e <= (1 + / 30000) * E + 2 * eta.
Proof.
  destruct k_small as [_ KU]. pose proof (E_bounds t E t_ok E_is) as EB.
  replace e with (E + (e - E)) by ring. eapply Rle_trans; [apply Rabs_triang|]. rewrite (Rabs_pos_eq E) by lra.
  assert (u * k * E <= / 30000 * E) by (apply Rmult_le_compat_r; lra). lra.
Qed.

Lemma positive_gradient dy : Rabs (round32 (dy * round32 (r * fma e h 1)) - dy * (G * (E * K + 1))) <=
  u * Rabs dy * G * (8 * (1 + E * K) + (4 * t + 12) * (E * K)) + (1 + Rabs dy) * (4096 * eta).
Proof.
  destruct K_bounds as (KB & GB & RG). pose proof h_error as HE. pose proof (E_bounds t E t_ok E_is) as EB. destruct k_small as [KK KU].
  pose proof u_pos as UP. pose proof u_small as US. pose proof eta_pos as NP. pose proof eta_tiny as NT. pose proof (Rabs_pos dy) as D0.
  pose proof (product_error _ _ _ _ _ _ e_error HE) as P. rewrite (Rabs_pos_eq K), (Rabs_pos_eq E) in P by lra.
  assert (Y0 : 0 <= E * K) by (apply Rmult_le_pos; lra). set (Y := E * K) in *.
  assert (UY : 0 <= u * Y) by (apply Rmult_le_pos; lra).
  assert (F1 : 0 <= u * k * (u * Y) <= / 30000 * (u * Y)) by (split; [apply Rmult_le_pos; [apply Rmult_le_pos|]|apply Rmult_le_compat_r]; lra).
  assert (F2 : 0 <= E * eta <= eta) by (split; [apply Rmult_le_pos|rewrite <- (Rmult_1_l eta) at 2; apply Rmult_le_compat_r]; lra).
  assert (F3 : 0 <= u * k * (E * eta) <= / 30000 * (E * eta)) by (split; [apply Rmult_le_pos; [apply Rmult_le_pos|]|apply Rmult_le_compat_r]; lra).
  assert (F4 : 0 <= K * eta <= 352 * eta) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  pose proof (second_order (K * eta) ltac:(lra)) as F5.
  assert (F6 : 0 <= eta * eta <= / 1000 * eta) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  assert (P1 : Rabs (e * h - Y) <= u * ((k + 99436 / 10000) * Y) + 720 * eta).
  { eapply Rle_trans; [exact P|]. unfold Y in *. lra. }
  assert (P2 : Rabs (e * h + 1 - (Y + 1)) <= u * ((k + 99436 / 10000) * Y) + 720 * eta).
  { replace (e * h + 1 - (Y + 1)) with (e * h - Y) by ring. exact P1. }
  apply round_from in P2. rewrite (Rabs_pos_eq (Y + 1)) in P2 by lra. fold (fma e h 1) in P2.
  assert (KY : 0 <= k * (u * Y) <= 487 * (u * Y)) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  pose proof (second_order (k * (u * Y)) ltac:(lra)) as O1. pose proof (second_order (u * Y) UY) as O2. pose proof (second_order eta ltac:(lra)) as O3.
  set (B := (k + 99445 / 10000) * Y + (Y + 1)).
  assert (P3 : Rabs (fma e h 1 - (Y + 1)) <= u * B + 1000 * eta) by (eapply Rle_trans; [exact P2|]; unfold B; lra).
  assert (KY' : 0 <= k * Y <= 487 * Y) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  assert (B0 : 0 <= B) by (unfold B; lra).
  assert (S : u * B <= / 30000 * (Y + 1)).
  { apply Rle_trans with (/ 16777216 * B); [apply Rmult_le_compat_r; lra|]. unfold B. lra. }
  eapply Rle_trans; [apply (outer_error dy (fma e h 1) (Y + 1) B (Y + 1) B0 P3 S ltac:(lra))|].
  rewrite (Rabs_pos_eq (Y + 1)) by lra.
  assert (Z0 : 0 <= u * Rabs dy * G) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra|lra]).
  assert (T : 0 <= t * Y <= 121 * Y) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  assert (L : 69431 / 10000 * (Y + 1) + 1000001 / 1000000 * B + 2 / 10000 * (Y + 1) <= 8 * (1 + Y) + (4 * t + 12) * Y).
  { unfold B, k. lra. }
  assert (u * Rabs dy * G * (69431 / 10000 * (Y + 1) + 1000001 / 1000000 * B + 2 / 10000 * (Y + 1)) <=
    u * Rabs dy * G * (8 * (1 + Y) + (4 * t + 12) * Y)) by (apply Rmult_le_compat_l; lra).
  assert (0 <= Rabs dy * eta) by (apply Rmult_le_pos; lra). lra.
Qed.

Lemma negative_gradient dy : Rabs (round32 (dy * round32 (r * fma (- e) h e)) - dy * (G * (- E * K + E))) <=
  u * Rabs dy * G * E * ((4 * t + 10) * Rabs (1 - K) + 10 * K) + (1 + Rabs dy) * (4096 * eta).
Proof.
  destruct K_bounds as (KB & GB & RG). pose proof h_error as HE. pose proof (E_bounds t E t_ok E_is) as EB. destruct k_small as [KK KU].
  pose proof u_pos as UP. pose proof u_small as US. pose proof eta_pos as NP. pose proof eta_tiny as NT. pose proof (Rabs_pos dy) as D0.
  pose proof e_size as ES.
  assert (A0 : 0 <= Rabs (1 - K) <= 353) by (split; [apply Rabs_pos|apply Rabs_le; lra]). set (A := Rabs (1 - K)) in *.
  assert (Y0 : 0 <= E * K) by (apply Rmult_le_pos; lra). set (Y := E * K) in *.
  assert (X0 : 0 <= E * A) by (apply Rmult_le_pos; lra). set (X := E * A) in *.
  assert (UY : 0 <= u * Y) by (apply Rmult_le_pos; lra). assert (UX : 0 <= u * X) by (apply Rmult_le_pos; lra).
  assert (F2 : 0 <= E * eta <= eta) by (split; [apply Rmult_le_pos|rewrite <- (Rmult_1_l eta) at 2; apply Rmult_le_compat_r]; lra).
  assert (F4 : 0 <= K * eta <= 352 * eta) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  pose proof (second_order (K * eta) ltac:(lra)) as F5.
  assert (F6 : 0 <= eta * eta <= / 1000 * eta) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  assert (P1 : Rabs (- e * h + e - (- E * K + E)) <= u * (k * X + 99436 / 10000 * Y) + 720 * eta).
  { replace (- e * h + e - (- E * K + E)) with ((e - E) * (1 - K) - e * (h - K)) by ring.
    unfold Rminus at 1. eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp, !Rabs_mult. fold A.
    assert (Q1 : Rabs (e - E) * A <= (u * k * E + 2 * eta) * A) by (apply Rmult_le_compat_r; lra).
    assert (Q2 : Rabs e * Rabs (h - K) <= ((1 + / 30000) * E + 2 * eta) * (99432 / 10000 * u * K + 4 * eta)) by (apply Rmult_le_compat; try apply Rabs_pos; lra).
    assert (Q3 : eta * A <= eta * 353) by (apply Rmult_le_compat_l; lra).
    unfold X, Y in *. lra. }
  apply round_from in P1. fold (fma (- e) h e) in P1.
  assert (WA : Rabs (- E * K + E) = X).
  { replace (- E * K + E) with (E * (1 - K)) by ring. rewrite Rabs_mult, (Rabs_pos_eq E) by lra. reflexivity. }
  rewrite WA in P1.
  assert (KX : 0 <= k * (u * X) <= 487 * (u * X)) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  pose proof (second_order (k * (u * X)) ltac:(lra)) as O1. pose proof (second_order (u * Y) UY) as O2. pose proof (second_order eta ltac:(lra)) as O3.
  set (B := (k + 10001 / 10000) * X + 99445 / 10000 * Y).
  assert (P3 : Rabs (fma (- e) h e - (- E * K + E)) <= u * B + 1000 * eta) by (eapply Rle_trans; [exact P1|]; unfold B; lra).
  assert (KX' : 0 <= k * X <= 487 * X) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  assert (B0 : 0 <= B) by (unfold B; lra).
  assert (S : u * B <= / 30000 * (X + Y)).
  { apply Rle_trans with (/ 16777216 * B); [apply Rmult_le_compat_r; lra|]. unfold B. lra. }
  eapply Rle_trans; [apply (outer_error dy (fma (- e) h e) (- E * K + E) B (X + Y) B0 P3 S ltac:(lra))|]. rewrite WA.
  assert (Z0 : 0 <= u * Rabs dy * G) by (apply Rmult_le_pos; [apply Rmult_le_pos; lra|lra]).
  assert (T : 0 <= t * X <= 121 * X) by (split; [apply Rmult_le_pos|apply Rmult_le_compat_r]; lra).
  assert (L : 69431 / 10000 * X + 1000001 / 1000000 * B + 2 / 10000 * (X + Y) <= (4 * t + 10) * X + 10 * Y).
  { unfold B, k. lra. }
  assert (u * Rabs dy * G * (69431 / 10000 * X + 1000001 / 1000000 * B + 2 / 10000 * (X + Y)) <=
    u * Rabs dy * G * ((4 * t + 10) * X + 10 * Y)) by (apply Rmult_le_compat_l; lra).
  replace (u * Rabs dy * G * E * ((4 * t + 10) * A + 10 * K)) with (u * Rabs dy * G * ((4 * t + 10) * X + 10 * Y)) by (unfold X, Y; ring).
  assert (0 <= Rabs dy * eta) by (apply Rmult_le_pos; lra). lra.
Qed.
End Gradient.

(** GELU's gradient is off by at most u·|dy|·r·(8·(1 + e·k) + (4t + 12)·e·k) + (1 + |dy|)·2^-138 for x >= 0 and by at most
    u·|dy|·r·e·((4t + 10)·|1 - k| + 10·k) + (1 + |dy|)·2^-138 for x < 0, where t is t(a), a = min(|x|, 11), e = exp(-t),
    r = 1/(1+e) and k = r·a·t'(a). These are the closed forms of docs/accuracy.md for gelu.backward, before the result is
    stored. The exact value is that of the definition, whose a is held at 11.

    Speaks of: gelu.backward b40f8455a078965c289d0265d1c80e273f64642723ba4a7e0b491efbd2282029

    Rests on it: op/gelu.backwardBounds. *)
Theorem gelu_backward_error : forall (exp32 recip32 : R -> R) (dy x : R),
  let t := t_of (held x) in let e := exp (- t) in let r := / (1 + e) in let k := r * slope_at (held x) in
  let dx32 := gelu_backward.out_dx round32 exp32 recip32 dy x in let dx := gelu_backward.exact_dx dy x in
  exp_within_one_ulp exp32 -> recip_within_three_quarters recip32 ->
  (0 <= x -> Rabs (dx32 - dx) <=
    u * Rabs dy * r * (8 * (1 + e * k) + (4 * t + 12) * (e * k)) + (1 + Rabs dy) * (4096 * eta)) /\
  (x < 0 -> Rabs (dx32 - dx) <=
    u * Rabs dy * r * e * ((4 * t + 10) * Rabs (1 - k) + 10 * k) + (1 + Rabs dy) * (4096 * eta)).
Proof.
  intros exp32 recip32 dy x t e r k dx32 dx We Wr. unfold dx32, dx, gelu_backward.exact_dx. rewrite !gelu_backward_form. clear dx32 dx.
  change (gelu_gradient_form round32 exp32 recip32 dy x) with (gelu_gradient32 exp32 recip32 dy x).
  change (gelu_gradient_form (fun z => z) exp Rinv dy x) with (gelu_gradient dy x).
  pose proof (held_bounds x) as A. pose proof cubic_bounds as CB.
  destruct (exponential_within exp32 (held x) We A) as (T & Fe & Ee). fold t in T, Ee. fold e in Ee.
  destruct (cubic_error (3 * cubic) (held x) ltac:(lra) A) as [M MB]. fold (slope_at (held x)) (slope_at32 (held x)) in M, MB.
  unfold gelu_gradient32, gelu_gradient. cbv zeta. fold t. fold e. fold r. fold k.
  split; intros X; (destruct (Rlt_dec x 0) as [N|N]; [|]); try lra.
  - exact (positive_gradient recip32 t e _ _ _ Wr T eq_refl Fe Ee MB M dy).
  - exact (negative_gradient recip32 t e _ _ _ Wr T eq_refl Fe Ee MB M dy).
Qed.
