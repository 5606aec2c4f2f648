(** * Models of definitions, as they are computed

    With rounding to binary32 and with the functions of package fn. Written by go test ./docs -run ProveOperations -update; do not edit. *)

From Tokitai Require Import Binary32.
From Tokitai Require functions.exp_bounded functions.exp_nonpositive functions.recip_bounded operations.gelu_backward operations.gelu_forward operations.softmax_forward.

Definition softmax_forward_y := softmax_forward.out_y round32 exp_nonpositive.exp_nonpositive_f32.
Definition gelu_forward_y := gelu_forward.out_y round32 exp_bounded.exp_bounded_f32 recip_bounded.recip_bounded_f32.
Definition gelu_backward_dx := gelu_backward.out_dx round32 exp_bounded.exp_bounded_f32 recip_bounded.recip_bounded_f32.
