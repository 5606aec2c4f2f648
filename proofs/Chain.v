(** * Chains

    A chain adds terms one after another to an accumulator that is carried along: acc = fma(a, b,
    acc), k ascending. Nothing here knows what a number is. A step is any function of the
    accumulator and a term, so what is proved holds for every format, for every rounding, and for
    NaN and infinity. *)

From Coq Require Import List Arith.
Import ListNotations.

Section Chain.
  Variables (Acc Term : Type) (step : Acc -> Term -> Acc).

  Definition chain (acc : Acc) (terms : list Term) : Acc := fold_left step terms acc.

  (** A chain may be cut into pieces anywhere, and in any number of them, where the accumulator is
      carried from one piece to the next.

      Rests on it: lower/cpu/matmul.plan, whose depth is that of a block of k; lower/cpu.contraction. *)
  Theorem chain_cut : forall (pieces : list (list Term)) (acc : Acc),
    fold_left chain pieces acc = chain acc (concat pieces).
  Proof.
    induction pieces as [|piece pieces IH]; intros acc; simpl; [reflexivity|].
    rewrite IH. unfold chain. now rewrite fold_left_app.
  Qed.
End Chain.
