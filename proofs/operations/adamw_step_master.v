(** * The model of adamw.step.master

    From the nodes of the definition. Written by go test ./docs -run ProveOperations -update; do not edit. *)

From Coq Require Import Reals List.
Local Open Scope R_scope.

(* tokitai-def 1
rowwise adamw.step.master
  inout weight[R,C] f32
  inout m[R,C] f32
  inout v[R,C] f32
  in    grad[R,C] f16 bf16 f32
  out   copy[R,C] f16 bf16, may be grad
  param beta1 float in [0,1]
  param one_minus_beta1 float in [0,1]
  param beta2 float in [0,1]
  param one_minus_beta2 float in [0,1]
  param step_size float in [0,+Inf)
  param inverse_sqrt_bc2 float in [0,+Inf)
  param eps float in [0,+Inf)
  param decay float in [0,+Inf)
  t1 = mul(beta1, m)
  t2 = mul(one_minus_beta1, grad)
  new_m = add(t1, t2)
  t3 = mul(beta2, v)
  t4 = mul(one_minus_beta2, grad)
  t5 = mul(t4, grad)
  new_v = add(t3, t5)
  t6 = sqrt(new_v)
  t7 = mul(t6, inverse_sqrt_bc2)
  d = add(t7, eps)
  t8 = div(new_m, d)
  t9 = mul(step_size, t8)
  t10 = mul(decay, weight)
  t11 = add(t9, t10)
  new_weight = sub(weight, t11)
  m <- new_m
  v <- new_v
  weight <- new_weight
  copy <- new_weight
   sha256 f17b7e6a2d0044b19279a1ccda672439f52959f73a75d570e6d730c5aff03ab0 *)
Section Nodes.
Variable rnd : R -> R. (* the rounding after each step *)
Variable beta1 : R.
Variable one_minus_beta1 : R.
Variable beta2 : R.
Variable one_minus_beta2 : R.
Variable step_size : R.
Variable inverse_sqrt_bc2 : R.
Variable eps : R.
Variable decay : R.
Variable weight : R.
Variable m : R.
Variable v : R.
Variable grad : R.
Definition t1 := rnd (beta1 * m).
Definition t2 := rnd (one_minus_beta1 * grad).
Definition new_m := rnd (t1 + t2).
Definition t3 := rnd (beta2 * v).
Definition t4 := rnd (one_minus_beta2 * grad).
Definition t5 := rnd (t4 * grad).
Definition new_v := rnd (t3 + t5).
Definition t6 := rnd (sqrt new_v).
Definition t7 := rnd (t6 * inverse_sqrt_bc2).
Definition d := rnd (t7 + eps).
Definition t8 := rnd (new_m / d).
Definition t9 := rnd (step_size * t8).
Definition t10 := rnd (decay * weight).
Definition t11 := rnd (t9 + t10).
Definition new_weight := rnd (weight - t11).
Definition out_m := new_m.
Definition out_v := new_v.
Definition out_weight := new_weight.
Definition out_copy := new_weight.
End Nodes.

(* Over the real numbers. *)
Definition exact_m := out_m (fun z => z).
Definition exact_v := out_v (fun z => z).
Definition exact_weight := out_weight (fun z => z).
Definition exact_copy := out_copy (fun z => z).
