(** * The model of adamw.step.stochastic

    From the nodes of the definition. Written by go test ./docs -run ProveOperations -update; do not edit. *)

From Coq Require Import Reals List.
Local Open Scope R_scope.

(* tokitai-def 1
rowwise adamw.step.stochastic
  inout weight[R,C] f16 bf16
  inout m[R,C] f32
  inout v[R,C] f32
  in    grad[R,C] f16 bf16 f32
  param beta1 float in [0,1]
  param one_minus_beta1 float in [0,1]
  param beta2 float in [0,1]
  param one_minus_beta2 float in [0,1]
  param step_size float in [0,+Inf)
  param inverse_sqrt_bc2 float in [0,+Inf)
  param eps float in [0,+Inf)
  param decay float in [0,+Inf)
  param seed_low int32
  param seed_high int32
  param tensor int32 in [0,2147483647]
  param t int32 in [1,2147483647]
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
  word = random(seed_low, seed_high, tensor, t)
  t12 = sround(storage(weight), new_weight, word)
  m <- new_m
  v <- new_v
  weight <- t12
   sha256 70c9cd273e851382bb7cff629e0201d15ee906926941dd55f5b8930977cd8ff7 *)
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
End Nodes.
(* Left out: word t12, and what is stored from them. *)

(* Over the real numbers. *)
Definition exact_m := out_m (fun z => z).
Definition exact_v := out_v (fun z => z).
