(** * Errors of tensor cores

    The error of one step of mma(L,F,R), and of a chain of steps, in the model of MMA.v. Factors are in a format of few
    bits, the accumulator is a binary32, and all of them are finite (MmaTerm.v).

    Speaks of: gemm.forward 05c9f276a7bf19bb9bbd04d4474224aef1dc64968901a71a1e04d0288be08603, gemm.grad_a
    1556e032c5e98a0acb5516db49e5c95bf5e533a5f57b679af15eb35ae73e1878, gemm.grad_b
    8e3c3c459c304e5da3a3e5661ab12d0fed8b2d2b66f1307f2b1eb3d3dd3f47c6, gemm.batched.forward
    ec1da9ba2e12c4ae8c1e3339125f6b3a637ae7f77c0dcb9c1b8ade930795bf1a, gemm.batched.grad_a
    a0901bc3c83091922c342769645759d748143d3366247c9b6909e1a3cd41c79d, gemm.batched.grad_b
    396737f62058b9aaaf2fa19329471057b2990af57cb37ae686b46782358b40f1, gemm.fp8.forward
    0089b6f12eb18f1b95865992cb8da2118eef87879b0685e3b64606c4cb82ee5c *)

From Coq Require Import Reals List Lia Lra Psatz ZArith.
From Flocq Require Import Core.
From Tokitai Require Import MMA MmaTerm.
Import ListNotations.
Local Open Scope R_scope.

(** ** One step *)

(** A step that starts within e of s: how far its sum may be off after the alignment, and its result. Each of the terms
    that may lose bits loses less than 2^-F of the largest magnitude; the result loses less than 2^-R of itself, or
    2^-(126+R) where it is subnormal. *)
Definition alignment_bound (d : format) (F : Z) (s e : Rdefinitions.R) (ab : list (term * term)) : R :=
  e + INR (may_lose d F (length ab)) *
      Rmax (Rmax (Rabs s + e) (power (-126))) (largest_product d ab) * power (- F).

Definition step_bound (d : format) (F R : Z) (s e : Rdefinitions.R) (ab : list (term * term)) : Rdefinitions.R :=
  let a := alignment_bound d F s e ab in
  a + (Rabs (s + step_sum d ab) + a) * power (- R) + power (-126 - R).

Lemma step_within d F R c ab s e :
  (0 <= R <= 23)%Z -> unpacked f32 c -> all_unpacked d ab -> Rabs (value_of f32 c - s) <= e ->
  let a := alignment_bound d F s e ab in
  let sum := IZR (aligned_sum F (2 * fraction d) c (map times ab)) * power (unit F c (map times ab)) in
  Rabs (sum - (s + step_sum d ab)) <= a /\
  unpacked f32 (mma_step d F R c ab) /\
  Rabs (value_of f32 (mma_step d F R c ab) - (s + step_sum d ab)) <= step_bound d F R s e ab.
Proof.
  intros HR C P E a sum.
  assert (A : Rabs (sum - (s + step_sum d ab)) <= a).
  { pose proof (alignment_error d F c ab C) as L. fold sum in L.
    pose proof (largest_le d c ab C P) as G. rewrite unit_largest in L.
    replace (largest (c :: map times ab) - F)%Z with (largest (c :: map times ab) + - F)%Z in L by ring.
    rewrite power_plus in L.
    replace (sum - (s + step_sum d ab))
      with ((value_of f32 c - s) + (sum - (value_of f32 c + step_sum d ab))) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. unfold a, alignment_bound. apply Rplus_le_compat; [exact E|].
    eapply Rle_trans; [exact L|]. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [apply Rlt_le, power_pos|].
    apply Rmult_le_compat_l; [apply pos_INR|]. eapply Rle_trans; [exact G|].
    apply Rle_max_compat_r, Rle_max_compat_r.
    replace (value_of f32 c) with (s + (value_of f32 c - s)) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. lra. }
  destruct (truncate_result (aligned_sum F (2 * fraction d) c (map times ab)) (unit F c (map times ab)) R HR) as [U T].
  fold sum in T. repeat split; [exact A|exact (proj1 U)|exact (proj2 U)|].
  change (packed R (truncate R _ _)) with (mma_step d F R c ab) in T.
  set (r := value_of f32 (mma_step d F R c ab)) in *. set (s' := s + step_sum d ab) in *.
  replace (r - s') with ((sum - s') + (r - sum)) by ring.
  eapply Rle_trans; [apply Rabs_triang|]. unfold step_bound. fold a. fold s'.
  assert (S : Rabs sum <= Rabs s' + a).
  { replace sum with (s' + (sum - s')) by ring. eapply Rle_trans; [apply Rabs_triang|]. lra. }
  pose proof (power_pos (- R)). pose proof (power_pos (-126 - R)).
  assert (0 <= power (- R) * Rabs sum) by (apply Rmult_le_pos; [lra|apply Rabs_pos]).
  assert (power (- R) * Rabs sum <= (Rabs s' + a) * power (- R))
    by (rewrite Rmult_comm; apply Rmult_le_compat_r; lra).
  assert (Rmax (power (- R) * Rabs sum) (power (-126 - R)) <= (Rabs s' + a) * power (- R) + power (-126 - R))
    by (apply Rmax_lub; lra).
  lra.
Qed.

(** The error of one step, from an accumulator c, and that it does not overflow if the sum with its error stays below
    2^128.

    Rests on it: num.MMA.Step; truth.mmaError. *)
Theorem mma_step_error : forall (d : format) (F R : Z) (c : term) (ab : list (term * term)),
  let s := value_of f32 c in
  (0 <= R <= 23)%Z -> unpacked f32 c -> all_unpacked d ab ->
  Rabs (s + step_sum d ab) + alignment_bound d F s 0 ab < power 128 ->
  ~ overflows d F c ab /\
  Rabs (value_of f32 (mma_step d F R c ab) - (s + step_sum d ab)) <= step_bound d F R s 0 ab.
Proof.
  intros d F R c ab s HR C P H.
  destruct (step_within d F R c ab s 0 HR C P) as (A & _ & B).
  { unfold s. replace (_ - _) with 0 by ring. rewrite Rabs_R0. lra. }
  split; [|exact B]. apply no_overflow. set (sum := _ * _) in *.
  replace sum with ((s + step_sum d ab) + (sum - (s + step_sum d ab))) by ring.
  eapply Rle_lt_trans; [apply Rabs_triang|]. lra.
Qed.

(** ** A chain of steps *)

(** The error of a chain, step by step, as truth.mmaError adds it up; s is the exact sum so far. *)
Fixpoint mma_error (d : format) (F R : Z) (s e : Rdefinitions.R) (steps : list (list (term * term))) : Rdefinitions.R :=
  match steps with
  | [] => e
  | ab :: steps => mma_error d F R (s + step_sum d ab) (step_bound d F R s e ab) steps
  end.

(** Every partial sum stays below 2^128, with its error. *)
Fixpoint stays_finite (d : format) (F R : Z) (s e : Rdefinitions.R) (steps : list (list (term * term))) : Prop :=
  match steps with
  | [] => True
  | ab :: steps =>
      Rabs (s + step_sum d ab) + alignment_bound d F s e ab < power 128 /\
      stays_finite d F R (s + step_sum d ab) (step_bound d F R s e ab) steps
  end.

Fixpoint some_overflows (d : format) (F R : Z) (c : term) (steps : list (list (term * term))) : Prop :=
  match steps with
  | [] => False
  | ab :: steps => overflows d F c ab \/ some_overflows d F R (mma_step d F R c ab) steps
  end.

Lemma chain_within d F R steps : (0 <= R <= 23)%Z -> forall c s e,
  unpacked f32 c -> Forall (all_unpacked d) steps -> Rabs (value_of f32 c - s) <= e ->
  Rabs (value_of f32 (mma_chain d F R c steps) - (s + real_sum (map (step_sum d) steps))) <= mma_error d F R s e steps /\
  (stays_finite d F R s e steps -> ~ some_overflows d F R c steps).
Proof.
  intros HR. induction steps as [|ab steps IH]; intros c s e C P E;
    cbn [mma_chain fold_left map real_sum fold_right mma_error stays_finite some_overflows].
  - rewrite Rplus_0_r. split; [exact E|easy].
  - inversion P as [|? ? P1 P2]; subst.
    destruct (step_within d F R c ab s e HR C P1 E) as (A & U & B).
    destruct (IH _ _ _ U P2 B) as [I1 I2]. rewrite <- Rplus_assoc. split; [exact I1|].
    intros [H1 H2] [O|O]; [|now apply I2].
    revert O. apply no_overflow. set (sum := _ * _) in *.
    replace sum with ((s + step_sum d ab) + (sum - (s + step_sum d ab))) by ring.
    eapply Rle_lt_trans; [apply Rabs_triang|]. lra.
Qed.

(** The chain of mma(L,F,R) on finite operands is off by at most the sum of the bounds of its steps, and finite where
    that says so. A step may have any number of products.

    Rests on it: truth.mmaError; num.MMA.Dot; reference.products.chain. *)
Theorem mma_chain_error : forall (d : format) (F R : Z) (c : term) (steps : list (list (term * term))),
  let s := value_of f32 c in
  (0 <= R <= 23)%Z -> unpacked f32 c -> Forall (all_unpacked d) steps ->
  stays_finite d F R s 0 steps ->
  ~ some_overflows d F R c steps /\
  Rabs (value_of f32 (mma_chain d F R c steps) - (s + real_sum (map (step_sum d) steps))) <= mma_error d F R s 0 steps.
Proof.
  intros d F R c steps s HR C P H.
  destruct (chain_within d F R steps HR c s 0 C P) as [A B].
  { unfold s. replace (_ - _) with 0 by ring. rewrite Rabs_R0. lra. }
  split; [now apply B|exact A].
Qed.
