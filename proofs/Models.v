(** * Models of definitions, in the form of the theorems

    The files in operations have the models of definitions, made from their nodes. Here each is equal to the form that the
    proofs compute with, whatever the rounding, the functions and the sums are: a definition that changes has another model,
    and these proofs fail, with all that import them. *)

From Coq Require Import Reals List.
From Tokitai Require operations.softmax_forward operations.gelu_forward operations.gelu_backward.
From Tokitai Require operations.adamw_step operations.adamw_step_master operations.adamw_step_stochastic.
Local Open Scope R_scope.

(** ** Softmax, of a row whose maximum is m *)

Definition softmax_form (rnd exp32 : R -> R) (rowsum : list R -> R) (m : R) (row : list R) (x : R) : R :=
  let e := fun z => exp32 (rnd (z - m)) in rnd (e x * rnd (1 / rowsum (map e row))).

Lemma softmax_forward_form rnd exp32 rowmax rowsum row x :
  softmax_forward.out_y rnd exp32 rowmax rowsum row x = softmax_form rnd exp32 rowsum (rowmax row) row x.
Proof. reflexivity. Qed.

Lemma softmax_forward_exact rowmax row x :
  softmax_forward.exact_y rowmax row x = exp (x - rowmax row) / fold_right Rplus 0 (map (fun z => exp (z - rowmax row)) row).
Proof.
  change (softmax_forward.exact_y rowmax row x)
    with (exp (x - rowmax row) * (1 / fold_right Rplus 0 (map (fun z => exp (z - rowmax row)) row))).
  unfold Rdiv. now rewrite Rmult_1_l.
Qed.

(** ** GELU and its gradient *)

Definition slope : R := 2 * sqrt (2 / PI).
Definition cubic : R := slope * (44715 / 1000000).
Definition held (x : R) : R := Rmin (Rabs x) 11.

(** a·(c·a^2 + slope): t for c = cubic, and a·t' for c = 3·cubic. *)
Definition odd_form (rnd : R -> R) (c a : R) : R := rnd (a * rnd (rnd c * rnd (a * a) + rnd slope)).

Definition gelu_form (rnd exp32 recip32 : R -> R) (x : R) : R :=
  let a := held x in let e := exp32 (- odd_form rnd cubic a) in let r := recip32 (rnd (1 + e)) in
  if Rlt_dec x 0 then rnd (- rnd (a * e) * r) else rnd (x * r).

Lemma gelu_forward_form rnd exp32 recip32 x :
  gelu_forward.out_y rnd exp32 recip32 x = gelu_form rnd exp32 recip32 x.
Proof.
  unfold gelu_forward.out_y, gelu_forward.t9, gelu_forward.t7, gelu_forward.t1, gelu_form. cbv zeta.
  destruct (Rlt_dec x 0); reflexivity.
Qed.

Definition gelu_gradient_form (rnd exp32 recip32 : R -> R) (dy x : R) : R :=
  let a := held x in let e := exp32 (- odd_form rnd cubic a) in let r := recip32 (rnd (1 + e)) in
  let h := rnd (r * odd_form rnd (3 * cubic) a) in
  if Rlt_dec x 0 then rnd (dy * rnd (r * rnd (- e * h + e))) else rnd (dy * rnd (r * rnd (e * h + 1))).

Lemma gelu_backward_form rnd exp32 recip32 dy x :
  gelu_backward.out_dx rnd exp32 recip32 dy x = gelu_gradient_form rnd exp32 recip32 dy x.
Proof.
  unfold gelu_gradient_form. replace (3 * cubic) with (6 * sqrt (2 / PI) * (44715 / 1000000)) by (unfold cubic, slope; ring).
  unfold gelu_backward.out_dx, gelu_backward.t12, gelu_backward.t11, gelu_backward.t10, gelu_backward.t9, gelu_backward.t6, gelu_backward.neg.
  cbv zeta. destruct (Rlt_dec x 0); reflexivity.
Qed.

(** ** AdamW *)

Definition first_moment (rnd : R -> R) (beta1 rest1 m g : R) : R := rnd (rnd (beta1 * m) + rnd (rest1 * g)).
Definition second_moment (rnd : R -> R) (beta2 rest2 v g : R) : R := rnd (rnd (beta2 * v) + rnd (rnd (rest2 * g) * g)).
Definition divisor_form (rnd : R -> R) (v i eps : R) : R := rnd (rnd (rnd (sqrt v) * i) + eps).
Definition weight_form (rnd : R -> R) (w m d step decay : R) : R :=
  rnd (w - rnd (rnd (step * rnd (m / d)) + rnd (decay * w))).

Lemma adamw_m_form rnd beta1 rest1 m g : adamw_step.out_m rnd beta1 rest1 m g = first_moment rnd beta1 rest1 m g.
Proof. reflexivity. Qed.

Lemma adamw_v_form rnd beta2 rest2 v g : adamw_step.out_v rnd beta2 rest2 v g = second_moment rnd beta2 rest2 v g.
Proof. reflexivity. Qed.

Lemma adamw_weight_form rnd beta1 rest1 beta2 rest2 step i eps decay w m v g :
  adamw_step.out_weight rnd beta1 rest1 beta2 rest2 step i eps decay w m v g =
  weight_form rnd w (first_moment rnd beta1 rest1 m g) (divisor_form rnd (second_moment rnd beta2 rest2 v g) i eps) step decay.
Proof. reflexivity. Qed.

(** The definitions of AdamW compute the same moments and the same weight; they differ in what they store of it.

    Speaks of: adamw.step bc8bcd889567dea618625e29989dae92e3967e7942574b863f00cbeedd23a5be, adamw.step.master
    f17b7e6a2d0044b19279a1ccda672439f52959f73a75d570e6d730c5aff03ab0, adamw.step.stochastic
    70c9cd273e851382bb7cff629e0201d15ee906926941dd55f5b8930977cd8ff7

    Rests on it: op/adamw.stepBounds. *)
Theorem adamw_steps_agree :
  adamw_step_master.out_m = adamw_step.out_m /\ adamw_step_stochastic.out_m = adamw_step.out_m /\
  adamw_step_master.out_v = adamw_step.out_v /\ adamw_step_stochastic.out_v = adamw_step.out_v /\
  adamw_step_master.out_weight = adamw_step.out_weight /\ adamw_step_stochastic.new_weight = adamw_step.out_weight.
Proof. repeat split. Qed.
