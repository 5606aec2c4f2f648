(** * The model of softmax.forward

    From the nodes of the definition. Written by go test ./docs -run ProveOperations -update; do not edit. *)

From Coq Require Import Reals List.
Local Open Scope R_scope.

(* tokitai-def 1
rowwise softmax.forward
  in    x[R,C] f16 bf16 f32
  out   y[R,C] as x, may be x
  max = rowmax(x)
  t1 = sub(x, max)
  e = exp_nonpositive(t1)
  sum = rowsum(e)
  t2 = div(1, sum)
  t3 = mul(e, t2)
  y <- t3
   sha256 5b8ecb97e5e83a1a7f60aa9f6ec773e0bcf2fd18c2e3b1feb6d3feb46c8fba7b *)
Section Nodes.
Variable rnd : R -> R. (* the rounding after each step *)
Variable exp_nonpositive : R -> R.
Variable rowmax : list R -> R.
Variable rowsum : list R -> R.
Variable row : list R. (* of x *)
Definition max := rowmax row.
Definition t1 (x : R) := rnd (x - max).
Definition e (x : R) := exp_nonpositive (t1 x).
Definition sum := rowsum (map e row).
Definition t2 := rnd (1 / sum).
Definition t3 (x : R) := rnd ((e x) * t2).
Definition out_y := t3.
End Nodes.

(* Over the real numbers. *)
Definition exact_y (rowmax : list R -> R) := out_y (fun z => z) exp rowmax (fold_right Rplus 0).
