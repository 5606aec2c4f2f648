(** * The model of gelu.forward

    From the nodes of the definition. Written by go test ./docs -run ProveOperations -update; do not edit. *)

From Coq Require Import Reals List.
Local Open Scope R_scope.

(* tokitai-def 1
rowwise gelu.forward
  in    x[R,C] f16 bf16 f32
  out   y[R,C] as x, may be x
  t1 = less(x, 0)
  t2 = abs(x)
  a = min(t2, 11)
  a2 = mul(a, a)
  t3 = fma({2*sqrt(2/pi)*0.044715}, a2, {2*sqrt(2/pi)})
  t = mul(a, t3)
  t4 = neg(t)
  e = exp_bounded(t4)
  t5 = mul(a, e)
  t6 = neg(t5)
  t7 = select(t1, t6, x)
  t8 = add(1, e)
  r = recip_bounded(t8)
  t9 = mul(t7, r)
  y <- t9
   sha256 3f04a41a8f7f32a533bfc6d5abdec926962abde36b535b9a519999ad4753cf4f *)
Section Nodes.
Variable rnd : R -> R. (* the rounding after each step *)
Variable exp_bounded : R -> R.
Variable recip_bounded : R -> R.
Variable x : R.
Definition t1 := Rlt_dec x 0.
Definition t2 := Rabs x.
Definition a := Rmin t2 11.
Definition a2 := rnd (a * a).
Definition t3 := rnd ((rnd (2 * sqrt (2 / PI) * (44715 / 1000000))) * a2 + (rnd (2 * sqrt (2 / PI)))).
Definition t := rnd (a * t3).
Definition t4 := - t.
Definition e := exp_bounded t4.
Definition t5 := rnd (a * e).
Definition t6 := - t5.
Definition t7 := if t1 then t6 else x.
Definition t8 := rnd (1 + e).
Definition r := recip_bounded t8.
Definition t9 := rnd (t7 * r).
Definition out_y := t9.
End Nodes.

(* Over the real numbers. *)
Definition exact_y := out_y (fun z => z) exp Rinv.
