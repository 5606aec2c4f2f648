(** * The error of a matrix product

    One element of a product of matrices is c + sum a_k·b_k, where c is the old value, or 0.

    Speaks of: gemm.forward 05c9f276a7bf19bb9bbd04d4474224aef1dc64968901a71a1e04d0288be08603,
    gemm.forward.accumulate 7441348d2fd3a4c9c96b8d9184cc43e7270f5d2a71372d7718cf796e9199969a, gemm.grad_a
    1556e032c5e98a0acb5516db49e5c95bf5e533a5f57b679af15eb35ae73e1878, gemm.grad_a.accumulate
    d8c765a79cb13f06555c5a3005c22846e116e502ea35e46945c0a9670f876f6e, gemm.grad_b
    8e3c3c459c304e5da3a3e5661ab12d0fed8b2d2b66f1307f2b1eb3d3dd3f47c6, gemm.grad_b.accumulate
    193a00758685482fce5c5b902cacb168b39241035792b687d3379479d7f2a699, gemm.batched.forward
    ec1da9ba2e12c4ae8c1e3339125f6b3a637ae7f77c0dcb9c1b8ade930795bf1a, gemm.batched.forward.accumulate
    c9b7a0ecc2440a22ad5ced95a5baf6356357054f0f7363d487a76ef174480708, gemm.batched.grad_a
    a0901bc3c83091922c342769645759d748143d3366247c9b6909e1a3cd41c79d, gemm.batched.grad_a.accumulate
    bc3e4fcd6b30295ddd3c1c70814066d7a76fbf486cef400f9e52bca9b36f54c9, gemm.batched.grad_b
    396737f62058b9aaaf2fa19329471057b2990af57cb37ae686b46782358b40f1, gemm.batched.grad_b.accumulate
    e5f60416e4ad99422c117019127f5a1533c39e5e5d30e8a5e44a466416759dfa, gemm.grouped.forward
    8b195f881ea95731ebc2f5379a2036334d5f71c4b65edb346789807175f33594, gemm.grouped.grad_a
    752a2f5fca4021cc990498fab9ddb34985030c0565a10832f377b3d75333e8f8, gemm.grouped.grad_b
    9728df752fe39d1df3d56e7625f1b49194db1a954d848fe2425026635b30198a *)

From Coq Require Import Reals List Lia Lra Psatz ZArith.
From Flocq Require Import Core Operations.
From Tokitai Require Import Sum Tree Lanes Binary32.
Import ListNotations.
Local Open Scope R_scope.

(** ** Definitions *)

(** The exact element, and the sum of the magnitudes in it. *)
Definition product (p : R * R) : R := fst p * snd p.
Definition dot (c : R) (ab : list (R * R)) : R := c + sum (map product ab).
Definition dot_abs (c : R) (ab : list (R * R)) : R := Rabs c + sum_abs (map product ab).

(** The exact partial sums c + a_1·b_1, c + a_1·b_1 + a_2·b_2, and so on. *)
Fixpoint partial_sums (c : R) (ab : list (R * R)) : list R :=
  match ab with [] => [] | p :: ab => c + product p :: partial_sums (c + product p) ab end.

(** Model fma: acc = fma(a_k, b_k, acc), k ascending, in binary32. *)
Definition fma (a b c : R) : R := round32 (a * b + c).
Definition fma_chain (c : R) (ab : list (R * R)) : R :=
  fold_left (fun acc p => fma (fst p) (snd p) acc) ab c.

(** ** Lemmas *)

Lemma dot_cons c p ab : dot c (p :: ab) = dot (c + product p) ab.
Proof. unfold dot. simpl. ring. Qed.

Lemma sum_abs_nonneg l : 0 <= sum_abs l.
Proof. unfold sum_abs. induction l; simpl; [lra|]. pose proof (Rabs_pos a). lra. Qed.

Lemma fma_error a b c : Rabs (fma a b c - (a * b + c)) <= u * Rabs (a * b + c) + eta.
Proof.
  eapply Rle_trans; [apply rounding_error|].
  pose proof eta_pos. pose proof u_pos. pose proof (Rabs_pos (a * b + c)).
  apply Rmax_lub; nra.
Qed.

(** An error E at the start, and u·|s_k| + eta at each step, grow by 1+u at every step that follows. *)
Lemma chain_error ab : forall acc s,
  Rabs (fma_chain acc ab - dot s ab) <=
  (1 + u) ^ length ab * (Rabs (acc - s) + u * sum_abs (partial_sums s ab) + INR (length ab) * eta).
Proof.
  pose proof u_pos as U. pose proof eta_pos as N.
  induction ab as [|p ab IH]; intros acc s.
  - simpl. unfold dot, sum_abs. simpl. rewrite Rplus_0_r. pose proof (Rabs_pos (acc - s)). lra.
  - change (fma_chain acc (p :: ab)) with (fma_chain (fma (fst p) (snd p) acc) ab).
    rewrite dot_cons. eapply Rle_trans; [apply IH|].
    simpl length. rewrite <- tech_pow_Rmult, S_INR.
    pose proof (fma_error (fst p) (snd p) acc) as F.
    unfold sum_abs. simpl. fold (sum_abs (partial_sums (s + product p) ab)).
    fold (product p) in F. set (x := fma (fst p) (snd p) acc) in *. set (q := product p) in *.
    set (S := sum_abs (partial_sums (s + q) ab)). set (n := INR (length ab)).
    assert (0 <= S) by apply sum_abs_nonneg. assert (0 <= n) by apply pos_INR.
    assert (E : Rabs (x - (s + q)) <= (1 + u) * (Rabs (acc - s) + u * Rabs (s + q) + eta)).
    { replace (x - (s + q)) with ((x - (q + acc)) + (acc - s)) by ring.
      eapply Rle_trans; [apply Rabs_triang|].
      assert (Rabs (q + acc) <= Rabs (s + q) + Rabs (acc - s)).
      { replace (q + acc) with ((s + q) + (acc - s)) by ring. apply Rabs_triang. }
      pose proof (Rabs_pos (s + q)). pose proof (Rabs_pos (acc - s)). nra. }
    rewrite (Rmult_comm (1 + u)), Rmult_assoc. apply Rmult_le_compat_l; [apply pow_le; lra|].
    assert (0 <= u * (u * S + n * eta)) by (apply Rmult_le_pos; nra).
    lra.
Qed.

Lemma partial_sums_le ab : forall c, sum_abs (partial_sums c ab) <= INR (length ab) * dot_abs c ab.
Proof.
  induction ab as [|p ab IH]; intros c.
  - simpl. unfold sum_abs. simpl. lra.
  - simpl length. rewrite S_INR. unfold sum_abs. simpl. fold (sum_abs (partial_sums (c + product p) ab)).
    specialize (IH (c + product p)). unfold dot_abs, sum_abs in *. simpl.
    fold (sum_abs (map product ab)) in *. pose proof (Rabs_triang c (product p)).
    pose proof (sum_abs_nonneg (map product ab)). pose proof (pos_INR (length ab)). nra.
Qed.

Lemma u_rounded : rounded_addition binary32 (fun x y => round32 (x + y)) u.
Proof. exact binary32_addition. Qed.

(** ** The chain of fused multiply-adds *)

(** With the exact partial sums s_k, the chain of K steps is off by at most (u·sum |s_k| + K·eta) / (1 - K·u).

    Rests on it: truth.chainError; reference.products.chain. *)
Theorem fma_chain_running_error c ab :
  INR (length ab) * u < 1 ->
  Rabs (fma_chain c ab - dot c ab) <=
  (u * sum_abs (partial_sums c ab) + INR (length ab) * eta) / (1 - INR (length ab) * u).
Proof.
  intros H. eapply Rle_trans; [apply chain_error|].
  replace (c - c) with 0 by ring. rewrite Rabs_R0, Rplus_0_l, Rmult_comm.
  apply Rmult_le_compat_l.
  - pose proof (sum_abs_nonneg (partial_sums c ab)). pose proof (pos_INR (length ab)).
    pose proof u_pos. pose proof eta_pos. nra.
  - apply (power_le_inverse _ _ _ u_rounded), H.
Qed.

(** The closed form of docs/accuracy.md: up to 2^23 products, the chain is off by at most
    gamma(K)·(|c| + sum |a_k·b_k|) + K·2^-149.

    Rests on it: op/gemm.boundAt; bound.Gamma. *)
Theorem fma_chain_error c ab :
  (Z.of_nat (length ab) <= 2 ^ 23)%Z ->
  Rabs (fma_chain c ab - dot c ab) <=
  gamma u (length ab) * dot_abs c ab + INR (length ab) * (2 * eta).
Proof.
  intros K.
  assert (H : INR (length ab) * u <= / 2).
  { rewrite INR_IZR_INZ. apply IZR_le in K.
    apply Rle_trans with (IZR (2 ^ 23) * u); [apply Rmult_le_compat_r; [apply Rlt_le, u_pos|exact K]|].
    unfold u. simpl. lra. }
  eapply Rle_trans; [apply fma_chain_running_error; lra|].
  pose proof (partial_sums_le ab c) as P. unfold gamma.
  pose proof u_pos. pose proof eta_pos. pose proof (pos_INR (length ab)) as N.
  set (n := INR (length ab)) in *. set (A := dot_abs c ab) in *.
  assert (I : 0 < / (1 - n * u)) by (apply Rinv_0_lt_compat; lra).
  assert (J : / (1 - n * u) <= 2).
  { replace 2 with (/ / 2) by field. apply Rinv_le_contravar; lra. }
  unfold Rdiv. rewrite Rmult_plus_distr_r.
  apply Rplus_le_compat.
  - replace (n * u * / (1 - n * u) * A) with (u * (n * A) * / (1 - n * u)) by ring.
    apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_l; lra.
  - rewrite Rmult_assoc. apply Rmult_le_compat_l; [lra|]. rewrite Rmult_comm.
    apply Rmult_le_compat_r; lra.
Qed.

(** Where the first step starts from 0, and its product is a binary32 or underflows, as products of f16 and bf16 are
    and do, that step adds no relative error. *)
Lemma first_product_running_error a b ab :
  Rabs (round32 (a * b) - a * b) <= eta -> INR (S (length ab)) * u < 1 ->
  Rabs (fma_chain 0 ((a, b) :: ab) - dot 0 ((a, b) :: ab)) <=
  (u * sum_abs (partial_sums (a * b) ab) + INR (S (length ab)) * eta) / (1 - INR (S (length ab)) * u).
Proof.
  intros N H. change (fma_chain 0 ((a, b) :: ab)) with (fma_chain (fma a b 0) ab).
  rewrite dot_cons. unfold product. simpl fst. simpl snd. rewrite Rplus_0_l.
  eapply Rle_trans; [apply chain_error|].
  unfold fma. rewrite Rplus_0_r, S_INR in *.
  pose proof (sum_abs_nonneg (partial_sums (a * b) ab)) as S. pose proof (pos_INR (length ab)).
  pose proof u_pos. pose proof eta_pos.
  pose proof (power_le_inverse _ _ _ u_rounded (Datatypes.S (length ab))) as P. rewrite S_INR in P.
  specialize (P H).
  pose proof (power_mono _ _ _ u_rounded (length ab) (Datatypes.S (length ab)) ltac:(lia)).
  unfold Rdiv. rewrite Rmult_comm. apply Rmult_le_compat; try nra.
  - pose proof (Rabs_pos (round32 (a * b) - a * b)). nra.
  - apply pow_le. lra.
Qed.

(** Numbers whose significands have p and q bits, p + q <= 24, have such products. *)
Lemma short_product m n e f :
  (Z.abs m * Z.abs n < 2 ^ 24)%Z ->
  Rabs (round32 (F2R (Float radix2 m e) * F2R (Float radix2 n f)) - F2R (Float radix2 m e) * F2R (Float radix2 n f)) <= eta.
Proof.
  intros H. rewrite <- F2R_mult. simpl. set (x := F2R _).
  destruct (Z_le_gt_dec (-149) (e + f)) as [E|E].
  - replace (round32 x) with x.
    + replace (x - x) with 0 by ring. rewrite Rabs_R0. apply Rlt_le, eta_pos.
    + symmetry. apply round_generic; [typeclasses eauto|].
      apply generic_format_FLT. exists (Float radix2 (m * n) (e + f)); [easy| |exact E].
      simpl Fnum. rewrite Z.abs_mul. exact H.
  - assert (X : Rabs x < bpow radix2 (-126)).
    { unfold x. rewrite <- F2R_Zabs. unfold F2R. simpl Fnum. simpl Fexp.
      apply Rlt_le_trans with (IZR (2 ^ 24) * bpow radix2 (e + f)).
      - apply Rmult_lt_compat_r; [apply bpow_gt_0|]. apply IZR_lt. rewrite Z.abs_mul. exact H.
      - change (IZR (2 ^ 24)) with (bpow radix2 24). rewrite <- bpow_plus. apply bpow_le. lia. }
    eapply Rle_trans; [apply error_le_half_ulp; typeclasses eauto|].
    rewrite ulp_FLT_small; [|typeclasses eauto|].
    + unfold eta. change (-149)%Z with (1 + -150)%Z. rewrite bpow_plus. simpl (bpow radix2 1). lra.
    + eapply Rlt_trans; [exact X|]. apply bpow_lt. lia.
Qed.

(** The same for factors of few bits, at most 24 together, as f16, bf16 and FP8 have: a first step from 0 does not
    round relatively.

    Rests on it: truth.chainError. *)
Theorem fma_chain_of_short_factors_running_error m e n f ab :
  let a := F2R (Float radix2 m e) in let b := F2R (Float radix2 n f) in
  (Z.abs m * Z.abs n < 2 ^ 24)%Z -> INR (S (length ab)) * u < 1 ->
  Rabs (fma_chain 0 ((a, b) :: ab) - dot 0 ((a, b) :: ab)) <=
  (u * sum_abs (partial_sums (a * b) ab) + INR (S (length ab)) * eta) / (1 - INR (S (length ab)) * u).
Proof. intros a b H. apply first_product_running_error. now apply short_product. Qed.

(** ** Panels *)

(** Model panels(m,P): each panel is a sum of the inner model from 0, in binary32; the panels' sums are added as
    neighbours in a binary tree; an old value is added last. *)
Definition add32 (x y : R) : R := round32 (x + y).
Definition panels (inner : list (R * R) -> R) (parts : list (list (R * R))) : R :=
  tree R 0 add32 (map inner parts).
Definition panels_onto (c : R) inner parts : R := add32 (panels inner parts) c.

Definition panel_order (inner : list (R * R) -> R) parts : order :=
  tree order (Leaf 0) Node (map Leaf (map inner parts)).

Lemma zero_binary32 : binary32 0.
Proof. apply generic_format_0. Qed.

Lemma panel_order_facts inner parts : (forall p, binary32 (inner p)) ->
  computed add32 (panel_order inner parts) = panels inner parts /\
  exact (panel_order inner parts) = sum (map inner parts) /\
  magnitude (panel_order inner parts) = sum_abs (map inner parts) /\
  (height (panel_order inner parts) <= Nat.log2_up (length parts))%nat /\
  every binary32 (panel_order inner parts).
Proof.
  intros B. unfold panel_order, panels.
  rewrite (tree_map order R (Leaf 0) 0 Node add32), (tree_map order R (Leaf 0) 0 Node Rplus (exact)),
    (tree_map order R (Leaf 0) 0 Node Rplus (magnitude)); try easy; try apply Rabs_R0.
  rewrite !(tree_sum R 0 Rplus) by (intros; ring).
  rewrite !(map_map Leaf). repeat split.
  - now rewrite map_id.
  - now rewrite map_id.
  - pose proof (tree_keep order (Leaf 0) Node (fun n t => height t <= n)%nat) as K.
    specialize (K ltac:(simpl; intros; lia) ltac:(simpl; intros; lia) 0%nat (map Leaf (map inner parts))).
    rewrite !map_length in K. apply (K (le_n 0)).
    rewrite Forall_map. apply Forall_forall. intros. simpl. lia.
  - pose proof (tree_keep order (Leaf 0) Node (fun _ t => every binary32 t)) as K.
    apply (K ltac:(auto) ltac:(simpl; auto) 0%nat _ zero_binary32).
    rewrite Forall_map, Forall_map. apply Forall_forall. intros. apply B.
Qed.

Lemma dot_concat parts : dot 0 (concat parts) = sum (map (dot 0) parts).
Proof.
  unfold dot. rewrite Rplus_0_l. induction parts as [|p parts IH]; simpl; [easy|].
  rewrite map_app, Rplus_0_l, <- IH. unfold sum. rewrite fold_right_app. clear.
  induction p as [|x p IH]; simpl; [ring|]. rewrite IH. ring.
Qed.

Lemma dot_abs_concat parts : dot_abs 0 (concat parts) = sum (map (dot_abs 0) parts).
Proof.
  unfold dot_abs. rewrite Rabs_R0, Rplus_0_l. induction parts as [|p parts IH]; simpl; [easy|].
  rewrite map_app, Rplus_0_l, <- IH. unfold sum_abs, sum. rewrite map_app, fold_right_app. clear.
  induction (map product p) as [|x q IH]; simpl; [ring|]. rewrite IH. ring.
Qed.

Lemma dot_le_abs c ab : Rabs (dot c ab) <= dot_abs c ab.
Proof.
  unfold dot, dot_abs. eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat_l.
  unfold sum_abs. induction ab; simpl; [rewrite Rabs_R0; lra|].
  eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Lemma inner_error inner e parts :
  Forall (fun p => Rabs (inner p - dot 0 p) <= e p) parts ->
  Rabs (sum (map inner parts) - dot 0 (concat parts)) <= sum (map e parts).
Proof.
  rewrite dot_concat. induction 1 as [|p ps H F IH]; simpl.
  - rewrite Rminus_0_r, Rabs_R0. lra.
  - replace (inner p + sum (map inner ps) - (dot 0 p + sum (map (dot 0) ps)))
      with ((inner p - dot 0 p) + (sum (map inner ps) - sum (map (dot 0) ps))) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. lra.
Qed.

Lemma inner_magnitude inner e parts :
  Forall (fun p => Rabs (inner p - dot 0 p) <= e p) parts ->
  sum_abs (map inner parts) <= dot_abs 0 (concat parts) + sum (map e parts).
Proof.
  rewrite dot_abs_concat. unfold sum_abs. induction 1 as [|p ps H F IH]; simpl; [lra|].
  assert (Rabs (inner p) <= dot_abs 0 p + e p).
  { replace (inner p) with (dot 0 p + (inner p - dot 0 p)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; [apply dot_le_abs|exact H]. }
  lra.
Qed.

(** If panel p, of whatever model, is off by at most e p, then P panels are off by at most
    E + gamma(h)·(A + E), where E is the sum of all e p, A the sum of the magnitudes of all products, and h the
    binary logarithm of P, rounded up.

    Rests on it: truth.panelsError; def.Panels. *)
Theorem panels_error inner e parts :
  let E := sum (map e parts) in let h := Nat.log2_up (length parts) in
  (forall p, binary32 (inner p)) ->
  Forall (fun p => Rabs (inner p - dot 0 p) <= e p) parts -> INR h * u < 1 ->
  Rabs (panels inner parts - dot 0 (concat parts)) <= E + gamma u h * (dot_abs 0 (concat parts) + E).
Proof.
  intros E h B W H. destruct (panel_order_facts inner parts B) as (C & X & M & T & F).
  rewrite <- C. apply sum_of_results_error with binary32; auto.
  - exact u_rounded.
  - rewrite X. now apply inner_error.
  - rewrite M. now apply inner_magnitude.
Qed.

(** The same onto an old value, which takes one addition more.

    Rests on it: truth.panelsError. *)
Theorem panels_onto_error c inner e parts :
  let E := sum (map e parts) in let h := S (Nat.log2_up (length parts)) in
  binary32 c -> (forall p, binary32 (inner p)) ->
  Forall (fun p => Rabs (inner p - dot 0 p) <= e p) parts -> INR h * u < 1 ->
  Rabs (panels_onto c inner parts - dot c (concat parts)) <= E + gamma u h * (dot_abs c (concat parts) + E).
Proof.
  intros E h Hc B W H. destruct (panel_order_facts inner parts B) as (C & X & M & T & F).
  assert (D : panels_onto c inner parts = computed add32 (Node (panel_order inner parts) (Leaf c))).
  { simpl. now rewrite C. }
  rewrite D. apply sum_of_results_error with binary32; auto.
  - exact u_rounded.
  - simpl. auto.
  - simpl height. unfold h. lia.
  - simpl exact. rewrite X. replace (sum (map inner parts) + c - dot c (concat parts))
      with (sum (map inner parts) - dot 0 (concat parts)) by (unfold dot; ring).
    now apply inner_error.
  - simpl magnitude. rewrite M. pose proof (inner_magnitude inner e parts W).
    fold E in H0. unfold dot_abs in *. rewrite Rabs_R0 in H0. lra.
Qed.
