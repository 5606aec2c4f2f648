(** * Tensor cores in any order

    A kernel may cut a sum of products among several tensor cores or over time: steps of mma(L,F,R), each onto one of
    several partial sums, which are added in binary32, as is an old value.

    Speaks of: gemm.forward 05c9f276a7bf19bb9bbd04d4474224aef1dc64968901a71a1e04d0288be08603, gemm.grad_a
    1556e032c5e98a0acb5516db49e5c95bf5e533a5f57b679af15eb35ae73e1878, gemm.grad_b
    8e3c3c459c304e5da3a3e5661ab12d0fed8b2d2b66f1307f2b1eb3d3dd3f47c6, gemm.batched.forward
    ec1da9ba2e12c4ae8c1e3339125f6b3a637ae7f77c0dcb9c1b8ade930795bf1a, gemm.batched.grad_a
    a0901bc3c83091922c342769645759d748143d3366247c9b6909e1a3cd41c79d, gemm.batched.grad_b
    396737f62058b9aaaf2fa19329471057b2990af57cb37ae686b46782358b40f1, gemm.fp8.forward
    0089b6f12eb18f1b95865992cb8da2118eef87879b0685e3b64606c4cb82ee5c *)

From Coq Require Import Reals List Lia Lra Psatz ZArith.
From Flocq Require Import Core.
From Tokitai Require Import Sum Binary32 MMA MmaTerm MmaError.
Import ListNotations.
Local Open Scope R_scope.

(** A start from a number, a step onto a result, or the sum of two results. *)
Inductive work :=
  | Start (c : term)
  | Step (t : work) (ab : list (term * term))
  | Join (l r : work).

(** The results that a computation may have, as the next step unpacks them. *)
Inductive computes (d : format) (F R : Z) : work -> term -> Prop :=
  | computes_start : forall c, unpacked f32 c -> computes d F R (Start c) c
  | computes_step : forall t c ab, computes d F R t c -> all_unpacked d ab ->
      computes d F R (Step t ab) (mma_step d F R c ab)
  | computes_join : forall l r x y z, computes d F R l x -> computes d F R r y -> unpacked f32 z ->
      value_of f32 z = round32 (value_of f32 x + value_of f32 y) -> computes d F R (Join l r) z.

(** The exact sum, and the sum of magnitudes, where a subnormal factor counts with the least normal number. *)
Fixpoint true_value (d : format) (t : work) : R :=
  match t with
  | Start c => value_of f32 c
  | Step t ab => true_value d t + step_sum d ab
  | Join l r => true_value d l + true_value d r
  end.

Definition step_magnitudes (d : format) (ab : list (term * term)) : R :=
  real_sum (map (fun p => magnitude d (fst p) * magnitude d (snd p)) ab).

Fixpoint all_magnitudes (d : format) (t : work) : R :=
  match t with
  | Start c => Rabs (value_of f32 c)
  | Step t ab => all_magnitudes d t + step_magnitudes d ab
  | Join l r => all_magnitudes d l + all_magnitudes d r
  end.

(** The number of terms that may lose bits when they are aligned, of steps, and of additions. *)
Fixpoint losing (d : format) (F : Z) (t : work) : nat :=
  match t with Start _ => 0 | Step t ab => losing d F t + may_lose d F (length ab) | Join l r => losing d F l + losing d F r end.

Fixpoint steps (t : work) : nat :=
  match t with Start _ => 0 | Step t _ => S (steps t) | Join l r => steps l + steps r end.

Fixpoint joins (t : work) : nat :=
  match t with Start _ => 0 | Step t _ => joins t | Join l r => S (joins l + joins r) end.

Definition relative_error (d : format) (F R : Z) (t : work) : Rdefinitions.R :=
  INR (losing d F t) * power (- F) + INR (steps t) * power (- R) + INR (joins t) * u.

Definition absolute_error (d : format) (F R : Z) (t : work) : Rdefinitions.R :=
  INR (losing d F t) * power (- F) * power (-126) + INR (steps t) * power (-126 - R).

(** ** Lemmas *)

Lemma unpacked_binary32 c : unpacked f32 c -> binary32 (value_of f32 c).
Proof.
  intros [H [Z|E]]; unfold value_of, value.
  - rewrite Z, Rmult_0_l. apply generic_format_0.
  - apply generic_format_FLT. exists (Float radix2 (significand c) (exponent c - 23)).
    + reflexivity.
    + exact H.
    + simpl. simpl in E. lia.
Qed.

Lemma magnitude_ge d t : Rabs (value_of d t) <= magnitude d t.
Proof.
  unfold magnitude. destruct (Z.eqb_spec (significand t) 0) as [E|E].
  - unfold value_of, value. rewrite E, Rmult_0_l, Rabs_R0. lra.
  - apply Rmax_l.
Qed.

Lemma magnitude_nonneg d t : 0 <= magnitude d t.
Proof. eapply Rle_trans; [apply Rabs_pos|apply magnitude_ge]. Qed.

Lemma step_facts d ab : Rabs (step_sum d ab) <= step_magnitudes d ab /\ largest_product d ab <= step_magnitudes d ab.
Proof.
  unfold step_sum, step_magnitudes. induction ab as [|p ab [I1 I2]]; simpl; [rewrite Rabs_R0; lra|].
  pose proof (magnitude_nonneg d (fst p)). pose proof (magnitude_nonneg d (snd p)).
  assert (0 <= magnitude d (fst p) * magnitude d (snd p)) by (apply Rmult_le_pos; lra).
  assert (0 <= real_sum (map (fun p => magnitude d (fst p) * magnitude d (snd p)) ab))
    by (eapply Rle_trans; [apply Rabs_pos|exact I1]).
  split.
  - eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; [|exact I1]. rewrite Rabs_mult.
    apply Rmult_le_compat; try apply Rabs_pos; apply magnitude_ge.
  - apply Rmax_lub; lra.
Qed.

Lemma true_value_le d t : Rabs (true_value d t) <= all_magnitudes d t.
Proof.
  induction t as [c|t IH ab|l IHl r IHr]; simpl; [lra| |]; (eapply Rle_trans; [apply Rabs_triang|]).
  - pose proof (proj1 (step_facts d ab)). lra.
  - lra.
Qed.

Lemma all_magnitudes_nonneg d t : 0 <= all_magnitudes d t.
Proof. eapply Rle_trans; [apply Rabs_pos|apply true_value_le]. Qed.

Lemma errors_nonneg d F R t : 0 <= relative_error d F R t /\ 0 <= absolute_error d F R t.
Proof.
  unfold relative_error, absolute_error. pose proof u_pos. pose proof (power_pos (- F)). pose proof (power_pos (- R)).
  pose proof (power_pos (-126)). pose proof (power_pos (-126 - R)).
  pose proof (pos_INR (losing d F t)). pose proof (pos_INR (steps t)). pose proof (pos_INR (joins t)).
  split; repeat apply Rplus_le_le_0_compat; repeat apply Rmult_le_pos; lra.
Qed.

(** No partial sum with its error exceeds B. *)
Lemma work_error d F R B : (0 <= R <= 23)%Z -> 0 <= B -> forall t c, computes d F R t c ->
  all_magnitudes d t + (relative_error d F R t * B + absolute_error d F R t) <= B ->
  unpacked f32 c /\
  Rabs (value_of f32 c - true_value d t) <= relative_error d F R t * B + absolute_error d F R t.
Proof.
  intros HR B0. induction 1 as [c U|t c ab C IH P|l r x y z Cl IHl Cr IHr U E]; intros H.
  - split; [exact U|]. unfold relative_error, absolute_error. simpl.
    replace (_ - _) with 0 by ring. rewrite Rabs_R0. lra.
  - set (e := relative_error d F R t * B + absolute_error d F R t) in *.
    set (k := INR (may_lose d F (length ab))).
    assert (N : relative_error d F R (Step t ab) * B + absolute_error d F R (Step t ab) =
                e + k * (B + power (-126)) * power (- F) + B * power (- R) + power (-126 - R)).
    { unfold e, relative_error, absolute_error. cbn [losing steps joins]. rewrite plus_INR, S_INR. fold k. ring. }
    rewrite N in *. cbn [true_value all_magnitudes] in *.
    pose proof (errors_nonneg d F R t) as [E1 E2]. pose proof (step_facts d ab) as [S1 S2].
    pose proof (true_value_le d t) as TV. assert (K0 : 0 <= k) by apply pos_INR.
    pose proof (power_pos (- F)) as PF. pose proof (power_pos (- R)) as PR. pose proof (power_pos (-126)) as P1.
    pose proof (power_pos (-126 - R)) as P2. pose proof (all_magnitudes_nonneg d t) as M0.
    assert (SM : 0 <= step_magnitudes d ab) by (eapply Rle_trans; [apply Rabs_pos|exact S1]).
    assert (e0 : 0 <= e) by (unfold e; apply Rplus_le_le_0_compat; [apply Rmult_le_pos|]; lra).
    assert (Q0 : 0 <= k * (B + power (-126)) * power (- F)) by (repeat apply Rmult_le_pos; lra).
    assert (Q1 : 0 <= B * power (- R)) by (apply Rmult_le_pos; lra).
    destruct IH as [I1 I2]; [lra|].
    destruct (step_within d F R c ab (true_value d t) e HR I1 P I2) as (_ & U & W).
    split; [exact U|]. eapply Rle_trans; [exact W|]. unfold step_bound.
    assert (A : alignment_bound d F (true_value d t) e ab <= e + k * (B + power (-126)) * power (- F)).
    { unfold alignment_bound. fold k. apply Rplus_le_compat_l, Rmult_le_compat_r; [lra|].
      apply Rmult_le_compat_l; [exact K0|]. repeat apply Rmax_lub; lra. }
    set (a := alignment_bound d F (true_value d t) e ab) in *.
    assert (T : Rabs (true_value d t + step_sum d ab) + a <= B).
    { pose proof (Rabs_triang (true_value d t) (step_sum d ab)). lra. }
    assert ((Rabs (true_value d t + step_sum d ab) + a) * power (- R) <= B * power (- R))
      by (apply Rmult_le_compat_r; lra).
    lra.
  - set (el := relative_error d F R l * B + absolute_error d F R l) in *.
    set (er := relative_error d F R r * B + absolute_error d F R r) in *.
    assert (N : relative_error d F R (Join l r) * B + absolute_error d F R (Join l r) = el + er + u * B).
    { unfold el, er, relative_error, absolute_error. cbn [losing steps joins]. rewrite S_INR, !plus_INR. ring. }
    rewrite N in *. cbn [true_value all_magnitudes] in *. pose proof u_pos as UP.
    pose proof (errors_nonneg d F R l) as [L1 L2]. pose proof (errors_nonneg d F R r) as [R1 R2].
    pose proof (true_value_le d l) as TL. pose proof (true_value_le d r) as TR.
    pose proof (all_magnitudes_nonneg d l) as ML. pose proof (all_magnitudes_nonneg d r) as MR.
    assert (el0 : 0 <= el) by (unfold el; apply Rplus_le_le_0_compat; [apply Rmult_le_pos|]; lra).
    assert (er0 : 0 <= er) by (unfold er; apply Rplus_le_le_0_compat; [apply Rmult_le_pos|]; lra).
    assert (UB : 0 <= u * B) by (apply Rmult_le_pos; lra).
    destruct IHl as [Ul Il]; [lra|]. destruct IHr as [Ur Ir]; [lra|]. split; [exact U|]. rewrite E.
    pose proof (add_error _ _ _ binary32_addition _ _ (unpacked_binary32 _ Ul) (unpacked_binary32 _ Ur)) as A.
    cbv beta in A. set (v := value_of f32 x) in *. set (w := value_of f32 y) in *.
    assert (S : Rabs (v + w) <= B).
    { replace (v + w) with ((true_value d l + true_value d r) + ((v - true_value d l) + (w - true_value d r))) by ring.
      eapply Rle_trans; [apply Rabs_triang|]. pose proof (Rabs_triang (true_value d l) (true_value d r)).
      pose proof (Rabs_triang (v - true_value d l) (w - true_value d r)). lra. }
    assert (u * Rabs (v + w) <= u * B) by (apply Rmult_le_compat_l; lra).
    replace (round32 (v + w) - (true_value d l + true_value d r)) with
      ((round32 (v + w) - (v + w)) + ((v - true_value d l) + (w - true_value d r))) by ring.
    eapply Rle_trans; [apply Rabs_triang|]. pose proof (Rabs_triang (v - true_value d l) (w - true_value d r)). lra.
Qed.

(** With N terms that may lose bits, S steps and A additions, rho = N·2^-F + S·2^-R + A·u and M the sum of all
    magnitudes, the result is off by at most

    (rho·M + N·2^-F·2^-126 + S·2^-(126+R)) / (1 - rho).

    A chain of steps is the case without additions.

    Rests on it: truth.stepsError. *)
Theorem mma_in_any_order_error : forall (d : format) (F R : Z) (t : work) (c : term),
  (0 <= R <= 23)%Z -> computes d F R t c -> relative_error d F R t < 1 ->
  Rabs (value_of f32 c - true_value d t) <=
  (relative_error d F R t * all_magnitudes d t + absolute_error d F R t) / (1 - relative_error d F R t).
Proof.
  intros d F R t c HR C H. pose proof (errors_nonneg d F R t) as [E1 E2]. pose proof (all_magnitudes_nonneg d t) as M0.
  set (rho := relative_error d F R t) in *. set (a := absolute_error d F R t) in *. set (M := all_magnitudes d t) in *.
  assert (P : 0 < / (1 - rho)) by (apply Rinv_0_lt_compat; lra).
  set (B := (M + a) / (1 - rho)).
  assert (B0 : 0 <= B) by (apply Rmult_le_pos; lra).
  assert (BE : M + (rho * B + a) = B) by (unfold B; field; lra).
  destruct (work_error d F R B HR B0 t c C) as [_ W]; [fold rho a M; lra|]. fold rho a in W.
  replace ((rho * M + a) / (1 - rho)) with (rho * B + a) by (unfold B; field; lra). exact W.
Qed.
