(** * Sums of products in any order

    A kernel that promises an order, but not the definition's bits, may round each product and add it, or fuse the
    product with an addition, here so and there so; it may keep several partial sums, and add an old value anywhere.
    Such a computation is a tree.

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
From Flocq Require Import Core.
From Tokitai Require Import Sum Binary32 Gemm.
Local Open Scope R_scope.

(** A rounded product, an old value, a rounded addition of two results, or fma(a, b, result). *)
Inductive plan :=
  | Product (a b : R)
  | Old (c : R)
  | Add (l r : plan)
  | Fused (a b : R) (t : plan).

Fixpoint result (t : plan) : R :=
  match t with
  | Product a b => round32 (a * b)
  | Old c => c
  | Add l r => add32 (result l) (result r)
  | Fused a b t => fma a b (result t)
  end.

(** The exact sum, the sum of magnitudes, the number of products, and the most additions that a term passes through. *)
Fixpoint true_sum (t : plan) : R :=
  match t with Product a b => a * b | Old c => c | Add l r => true_sum l + true_sum r | Fused a b t => a * b + true_sum t end.

Fixpoint magnitudes (t : plan) : R :=
  match t with
  | Product a b => Rabs (a * b) | Old c => Rabs c
  | Add l r => magnitudes l + magnitudes r | Fused a b t => Rabs (a * b) + magnitudes t
  end.

Fixpoint products (t : plan) : nat :=
  match t with Product _ _ => 1 | Old _ => 0 | Add l r => products l + products r | Fused _ _ t => S (products t) end.

Fixpoint additions (t : plan) : nat :=
  match t with Product _ _ => 0 | Old _ => 0 | Add l r => S (Nat.max (additions l) (additions r)) | Fused _ _ t => S (additions t) end.

Fixpoint old_is_binary32 (t : plan) : Prop :=
  match t with Product _ _ => True | Old c => binary32 c | Add l r => old_is_binary32 l /\ old_is_binary32 r | Fused _ _ t => old_is_binary32 t end.

(** Every product that is rounded by itself is a binary32, or underflows: products of f16, bf16 and FP8 do (see
    [fma_chain_of_short_factors_running_error]). *)
Fixpoint products_are_short (t : plan) : Prop :=
  match t with
  | Product a b => Rabs (round32 (a * b) - a * b) <= eta
  | Old _ => True
  | Add l r => products_are_short l /\ products_are_short r
  | Fused _ _ t => products_are_short t
  end.

Lemma result_binary32 t : old_is_binary32 t -> binary32 (result t).
Proof.
  destruct t; simpl; intros H;
    [apply (nearest_in_format (-149) 24)|exact H|apply (nearest_in_format (-149) 24)|apply (nearest_in_format (-149) 24)].
Qed.

Lemma magnitudes_ge t : Rabs (true_sum t) <= magnitudes t.
Proof.
  induction t; simpl; try lra.
  - eapply Rle_trans; [apply Rabs_triang|lra].
  - eapply Rle_trans; [apply Rabs_triang|lra].
Qed.

Lemma magnitudes_nonneg t : 0 <= magnitudes t.
Proof. eapply Rle_trans; [apply Rabs_pos|apply magnitudes_ge]. Qed.

(** With n further roundings of the products. *)
Lemma plan_error n t : (n = 1%nat \/ products_are_short t) -> old_is_binary32 t ->
  Rabs (result t - true_sum t) <=
  ((1 + u) ^ (additions t + n) - 1) * magnitudes t + INR (products t) * eta * (1 + u) ^ additions t.
Proof.
  pose proof u_pos as U. pose proof eta_pos as N.
  assert (P1 : forall k, 1 <= (1 + u) ^ k) by (intros; apply pow_R1_Rle; lra).
  induction t as [a b|c|l IHl r IHr|a b t IH]; intros S O.
  - cbn [result true_sum magnitudes products additions plus]. simpl (INR 1). simpl ((1 + u) ^ 0).
    pose proof (P1 n). pose proof (Rabs_pos (a * b)).
    destruct S as [->|S].
    + pose proof (rounding_error (a * b)) as E. rewrite pow_1.
      eapply Rle_trans; [exact E|]. apply Rmax_lub; nra.
    + simpl in S. nra.
  - simpl. replace (c - c) with 0 by ring. rewrite Rabs_R0. pose proof (P1 n). pose proof (Rabs_pos c). nra.
  - simpl in S, O. destruct O as [Ol Or].
    specialize (IHl ltac:(tauto) Ol). specialize (IHr ltac:(tauto) Or).
    pose proof (add_error _ _ _ binary32_addition _ _ (result_binary32 l Ol) (result_binary32 r Or)) as A. simpl in A.
    cbn [result true_sum magnitudes products additions]. rewrite plus_INR.
    fold (add32 (result l) (result r)) in A.
    set (h := Nat.max (additions l) (additions r)).
    change (Datatypes.S h + n)%nat with (Datatypes.S (h + n)). rewrite <- !tech_pow_Rmult.
    assert (M : forall x y, (x <= y)%nat -> (1 + u) ^ x <= (1 + u) ^ y) by (intros; apply Rle_pow; [lra|easy]).
    pose proof (M (additions l + n)%nat (h + n)%nat ltac:(unfold h; lia)) as M1.
    pose proof (M (additions r + n)%nat (h + n)%nat ltac:(unfold h; lia)) as M2.
    pose proof (M (additions l) h ltac:(unfold h; lia)) as M3.
    pose proof (M (additions r) h ltac:(unfold h; lia)) as M4.
    set (g := (1 + u) ^ (h + n)) in *. set (k := (1 + u) ^ h) in *.
    pose proof (magnitudes_nonneg l) as Pl. pose proof (magnitudes_nonneg r) as Pr.
    pose proof (magnitudes_ge l) as Gl. pose proof (magnitudes_ge r) as Gr.
    pose proof (pos_INR (products l)) as Nl. pose proof (pos_INR (products r)) as Nr.
    set (x := result l) in *. set (y := result r) in *.
    set (nl := INR (products l)) in *. set (nr := INR (products r)) in *.
    assert (El : Rabs (x - true_sum l) <= (g - 1) * magnitudes l + nl * eta * k).
    { eapply Rle_trans; [exact IHl|]. apply Rplus_le_compat.
      - apply Rmult_le_compat_r; lra.
      - apply Rmult_le_compat_l; [nra|lra]. }
    assert (Er : Rabs (y - true_sum r) <= (g - 1) * magnitudes r + nr * eta * k).
    { eapply Rle_trans; [exact IHr|]. apply Rplus_le_compat.
      - apply Rmult_le_compat_r; lra.
      - apply Rmult_le_compat_l; [nra|lra]. }
    assert (S1 : Rabs (x + y) <= Rabs (true_sum l) + Rabs (true_sum r) + Rabs (x - true_sum l) + Rabs (y - true_sum r)).
    { replace (x + y) with ((true_sum l + true_sum r) + ((x - true_sum l) + (y - true_sum r))) by ring.
      eapply Rle_trans; [apply Rabs_triang|].
      pose proof (Rabs_triang (true_sum l) (true_sum r)). pose proof (Rabs_triang (x - true_sum l) (y - true_sum r)). lra. }
    replace (add32 x y - (true_sum l + true_sum r)) with
      ((add32 x y - (x + y)) + (x - true_sum l) + (y - true_sum r)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. eapply Rle_trans; [apply Rplus_le_compat_r, Rabs_triang|].
    assert (u * Rabs (x + y) <= u * (g * (magnitudes l + magnitudes r) + (nl + nr) * eta * k))
      by (apply Rmult_le_compat_l; lra).
    lra.
  - specialize (IH S O). cbn [result true_sum magnitudes products additions]. rewrite S_INR.
    change (Datatypes.S (additions t) + n)%nat with (Datatypes.S (additions t + n)). rewrite <- !tech_pow_Rmult.
    pose proof (fma_error a b (result t)) as F. pose proof (magnitudes_nonneg t) as Pt. pose proof (magnitudes_ge t) as Gt.
    pose proof (P1 (additions t + n)%nat) as P. pose proof (P1 (additions t)) as P'. pose proof (pos_INR (products t)) as Nt.
    set (g := (1 + u) ^ (additions t + n)) in *. set (k := (1 + u) ^ additions t) in *.
    set (x := result t) in *. set (m := INR (products t)) in *.
    assert (S1 : Rabs (a * b + x) <= Rabs (a * b) + Rabs (true_sum t) + Rabs (x - true_sum t)).
    { replace (a * b + x) with ((a * b + true_sum t) + (x - true_sum t)) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. pose proof (Rabs_triang (a * b) (true_sum t)). lra. }
    replace (fma a b x - (a * b + true_sum t)) with ((fma a b x - (a * b + x)) + (x - true_sum t)) by ring.
    eapply Rle_trans; [apply Rabs_triang|].
    assert (Q : u * Rabs (a * b + x) <= u * (Rabs (a * b) + g * magnitudes t + m * eta * k))
      by (apply Rmult_le_compat_l; lra).
    pose proof (Rabs_pos (a * b)). assert (0 <= (g - 1) * Rabs (a * b)) by (apply Rmult_le_pos; lra).
    assert (0 <= u * ((g - 1) * Rabs (a * b))) by (apply Rmult_le_pos; lra).
    assert (eta * 1 <= eta * k) by (apply Rmult_le_compat_l; lra).
    assert (0 <= u * (eta * k)) by (apply Rmult_le_pos; lra).
    lra.
Qed.

Lemma plan_gamma h n t e :
  (additions t <= h)%nat -> INR (h + n) * u < 1 ->
  e <= ((1 + u) ^ (additions t + n) - 1) * magnitudes t + INR (products t) * eta * (1 + u) ^ additions t ->
  e <= gamma u (h + n) * magnitudes t + INR (products t) * eta * (1 + gamma u (h + n)).
Proof.
  intros H G E. pose proof u_pos. pose proof eta_pos. pose proof (pos_INR (products t)).
  pose proof (power_le_gamma _ _ _ binary32_addition (h + n) G) as P. pose proof (magnitudes_nonneg t).
  assert (M : forall x y, (x <= y)%nat -> (1 + u) ^ x <= (1 + u) ^ y) by (intros; apply Rle_pow; [lra|easy]).
  pose proof (M (additions t + n)%nat (h + n)%nat ltac:(lia)). pose proof (M (additions t) (h + n)%nat ltac:(lia)).
  eapply Rle_trans; [exact E|]. apply Rplus_le_compat.
  - apply Rmult_le_compat_r; lra.
  - apply Rmult_le_compat_l; [nra|lra].
Qed.

(** A sum of K products of binary32 numbers, in which no term passes through more than h additions, is off by at most
    gamma(h+1)·A + K·eta·(1 + gamma(h+1)), where A is the sum of magnitudes.

    Rests on it: truth.sums.orderError; promise.Ordered. *)
Theorem products_error : forall (t : plan) (h : nat),
  old_is_binary32 t -> (additions t <= h)%nat -> INR (h + 1) * u < 1 ->
  Rabs (result t - true_sum t) <=
  gamma u (h + 1) * magnitudes t + INR (products t) * eta * (1 + gamma u (h + 1)).
Proof.
  intros t h O H G. apply plan_gamma; [exact H|exact G|]. apply plan_error; [now left|exact O].
Qed.

(** If products do not round relatively, as those of f16, bf16 and FP8, it is gamma(h) instead of gamma(h+1).

    Rests on it: truth.sums.orderError; promise.Ordered. *)
Theorem short_products_error : forall (t : plan) (h : nat),
  old_is_binary32 t -> products_are_short t -> (additions t <= h)%nat -> INR h * u < 1 ->
  Rabs (result t - true_sum t) <=
  gamma u h * magnitudes t + INR (products t) * eta * (1 + gamma u h).
Proof.
  intros t h O S H G. replace h with (h + 0)%nat by lia.
  apply plan_gamma; [exact H|now rewrite Nat.add_0_r|]. apply plan_error; [now right|exact O].
Qed.
