(** * The model of gelu.backward

    From the nodes of the definition. Written by go test ./docs -run ProveOperations -update; do not edit. *)

From Coq Require Import Reals List.
Local Open Scope R_scope.

(* tokitai-def 1
rowwise gelu.backward
  in    dy[R,C] f16 bf16 f32
  in    x[R,C] as dy
  out   dx[R,C] as dy, may be dy or x
  t1 = abs(x)
  a = min(t1, 11)
  a2 = mul(a, a)
  t2 = fma({2*sqrt(2/pi)*0.044715}, a2, {2*sqrt(2/pi)})
  t = mul(a, t2)
  t3 = neg(t)
  e = exp_bounded(t3)
  t4 = add(1, e)
  r = recip_bounded(t4)
  neg = less(x, 0)
  t5 = neg(e)
  t6 = select(neg, t5, e)
  t7 = fma({6*sqrt(2/pi)*0.044715}, a2, {2*sqrt(2/pi)})
  t8 = mul(a, t7)
  h = mul(r, t8)
  t9 = select(neg, e, 1)
  t10 = fma(t6, h, t9)
  t11 = mul(r, t10)
  t12 = mul(dy, t11)
  dx <- t12
   sha256 b40f8455a078965c289d0265d1c80e273f64642723ba4a7e0b491efbd2282029 *)
Section Nodes.
Variable rnd : R -> R. (* the rounding after each step *)
Variable exp_bounded : R -> R.
Variable recip_bounded : R -> R.
Variable dy : R.
Variable x : R.
Definition t1 := Rabs x.
Definition a := Rmin t1 11.
Definition a2 := rnd (a * a).
Definition t2 := rnd ((rnd (2 * sqrt (2 / PI) * (44715 / 1000000))) * a2 + (rnd (2 * sqrt (2 / PI)))).
Definition t := rnd (a * t2).
Definition t3 := - t.
Definition e := exp_bounded t3.
Definition t4 := rnd (1 + e).
Definition r := recip_bounded t4.
Definition neg := Rlt_dec x 0.
Definition t5 := - e.
Definition t6 := if neg then t5 else e.
Definition t7 := rnd ((rnd (6 * sqrt (2 / PI) * (44715 / 1000000))) * a2 + (rnd (2 * sqrt (2 / PI)))).
Definition t8 := rnd (a * t7).
Definition h := rnd (r * t8).
Definition t9 := if neg then e else 1.
Definition t10 := rnd (t6 * h + t9).
Definition t11 := rnd (r * t10).
Definition t12 := rnd (dy * t11).
Definition out_dx := t12.
End Nodes.

(* Over the real numbers. *)
Definition exact_dx := out_dx (fun z => z) exp Rinv.
