(** * The chain of fused multiply-adds over IEEE's binary32

    Gemm.v speaks of real numbers that are rounded. This file is about IEEE 754's numbers, with infinities and NaN, as
    Flocq has them, and their fused multiply-add to nearest even: under a condition that excludes overflow, every
    step of the chain is finite, and the bound of Gemm.v holds for its value.

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
    e5f60416e4ad99422c117019127f5a1533c39e5e5d30e8a5e44a466416759dfa *)

From Coq Require Import Reals List Lia Lra Psatz ZArith.
From Flocq Require Import Core IEEE754.BinarySingleNaN.
From Tokitai Require Import Sum Binary32 Lanes Gemm.
Import ListNotations.
Local Open Scope R_scope.

Definition float32 := binary_float 24 128.

#[export] Instance precision_below_emax : Prec_lt_emax 24 128 := eq_refl.

(** acc = fma(a_k, b_k, acc), k ascending. *)
Definition ieee_chain (c : float32) (ab : list (float32 * float32)) : float32 :=
  fold_left (fun acc p => Bfma mode_NE (fst p) (snd p) acc) ab c.

Definition values (ab : list (float32 * float32)) : list (R * R) :=
  map (fun p => (B2R (fst p), B2R (snd p))) ab.

Definition all_finite (ab : list (float32 * float32)) : Prop :=
  Forall (fun p => is_finite (fst p) = true /\ is_finite (snd p) = true) ab.

Lemma gamma_mono n m : (n <= m)%nat -> INR m * u < 1 -> gamma u n <= gamma u m.
Proof.
  intros H M. unfold gamma. apply le_INR in H. pose proof u_pos. pose proof (pos_INR n).
  assert (INR n * u <= INR m * u) by (apply Rmult_le_compat_r; lra).
  apply Rmult_le_compat.
  - nra.
  - apply Rlt_le, Rinv_0_lt_compat. lra.
  - lra.
  - apply Rinv_le_contravar; lra.
Qed.

(** If the sum of magnitudes, widened by the bound, stays below 2^128, then no step overflows: the chain of IEEE's
    numbers is finite, its value is the chain of rounded real numbers, and its error that of [fma_chain_error].

    Rests on it: op/gemm.boundAt; truth.chainError; num.FMA. *)
Theorem ieee_chain_error c ab :
  let K := length ab in let A := dot_abs (B2R c) (values ab) in
  is_finite c = true -> all_finite ab -> (Z.of_nat K <= 2 ^ 23)%Z ->
  (1 + gamma u K) * A + INR K * (2 * eta) < bpow radix2 128 ->
  is_finite (ieee_chain c ab) = true /\
  B2R (ieee_chain c ab) = fma_chain (B2R c) (values ab) /\
  Rabs (B2R (ieee_chain c ab) - dot (B2R c) (values ab)) <= gamma u K * A + INR K * (2 * eta).
Proof.
  intros K A Fc F HK HA.
  assert (P : is_finite (ieee_chain c ab) = true /\ B2R (ieee_chain c ab) = fma_chain (B2R c) (values ab)).
  { unfold K, A in *. clear K A. revert F HK HA.
    induction ab as [|p ab IH] using rev_ind; intros F HK HA; [easy|].
    apply Forall_app in F. destruct F as [F Fp]. inversion Fp as [|? ? [F1 F2] _]; subst.
    assert (L : length (ab ++ [p]) = S (length ab)) by (rewrite app_length; simpl; lia).
    assert (U : INR (S (length ab)) * u <= / 2).
    { rewrite <- L, INR_IZR_INZ. apply IZR_le in HK.
      apply Rle_trans with (IZR (2 ^ 23) * u); [apply Rmult_le_compat_r; [apply Rlt_le, u_pos|exact HK]|].
      unfold u. simpl. lra. }
    assert (V : values (ab ++ [p]) = values ab ++ [(B2R (fst p), B2R (snd p))])
      by (unfold values; now rewrite map_app).
    assert (M : dot_abs (B2R c) (values ab) <= dot_abs (B2R c) (values (ab ++ [p]))).
    { rewrite V. unfold dot_abs, sum_abs, sum. rewrite !map_app, fold_right_app. simpl.
      apply Rplus_le_compat_l. pose proof (Rabs_pos (product (B2R (fst p), B2R (snd p)))) as Q.
      induction (map product (values ab)); simpl; lra. }
    assert (N : 0 <= dot_abs (B2R c) (values ab))
      by (eapply Rle_trans; [apply Rabs_pos|apply dot_le_abs]).
    destruct IH as [I1 I2]; auto.
    { rewrite L in HK. lia. }
    { eapply Rle_lt_trans; [|exact HA]. rewrite L.
      pose proof (gamma_mono (length ab) (S (length ab)) ltac:(lia) ltac:(lra)) as G.
      assert (0 <= gamma u (length ab)).
      { replace 0 with (gamma u 0) by (unfold gamma; simpl; field; lra).
        apply gamma_mono; [lia|]. rewrite S_INR in U. pose proof u_pos. lra. }
      assert (INR (length ab) <= INR (S (length ab))) by (apply le_INR; lia).
      pose proof eta_pos. apply Rplus_le_compat; [|nra].
      apply Rmult_le_compat; lra. }
    assert (S1 : ieee_chain c (ab ++ [p]) = Bfma mode_NE (fst p) (snd p) (ieee_chain c ab))
      by (unfold ieee_chain; now rewrite fold_left_app).
    assert (S2 : fma_chain (B2R c) (values (ab ++ [p])) =
                 round32 (B2R (fst p) * B2R (snd p) + fma_chain (B2R c) (values ab)))
      by (rewrite V; unfold fma_chain; now rewrite fold_left_app).
    pose proof (Bfma_correct 24 128 _ _ mode_NE (fst p) (snd p) (ieee_chain c ab) F1 F2 I1) as B. cbv zeta in B.
    change (round radix2 (SpecFloat.fexp 24 128) (round_mode mode_NE)) with round32 in B.
    rewrite I2, <- S2, <- S1 in B. rewrite Rlt_bool_true in B; [now split|].
    pose proof (fma_chain_error (B2R c) (values (ab ++ [p]))) as E.
    pose proof (dot_le_abs (B2R c) (values (ab ++ [p]))) as D.
    assert (LV : length (values (ab ++ [p])) = length (ab ++ [p])) by apply map_length.
    rewrite LV in E. specialize (E HK).
    set (r := fma_chain _ (values (ab ++ _))) in *. set (d := dot _ _) in *.
    replace r with (d + (r - d)) by ring. eapply Rle_lt_trans; [apply Rabs_triang|]. lra. }
  destruct P as [P1 P2]. repeat split; auto.
  rewrite P2. assert (LV : length (values ab) = K) by apply map_length.
  rewrite <- LV. apply fma_chain_error. now rewrite LV.
Qed.
