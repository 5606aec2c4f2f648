(** * Chains

    A chain adds terms one after another to an accumulator that is carried along: acc = fma(a, b,
    acc), k ascending. Nothing here knows what a number is. A step is any function of the
    accumulator and a term, so what is proved holds for every format, for every rounding, and for
    NaN and infinity.

    Speaks of: gemm.forward 05c9f276a7bf19bb9bbd04d4474224aef1dc64968901a71a1e04d0288be08603,
    gemm.forward.accumulate 7441348d2fd3a4c9c96b8d9184cc43e7270f5d2a71372d7718cf796e9199969a, gemm.grad_a
    1556e032c5e98a0acb5516db49e5c95bf5e533a5f57b679af15eb35ae73e1878, gemm.grad_a.accumulate
    d8c765a79cb13f06555c5a3005c22846e116e502ea35e46945c0a9670f876f6e, gemm.grad_b
    8e3c3c459c304e5da3a3e5661ab12d0fed8b2d2b66f1307f2b1eb3d3dd3f47c6, gemm.grad_b.accumulate
    193a00758685482fce5c5b902cacb168b39241035792b687d3379479d7f2a699, gemm.batched.forward
    ec1da9ba2e12c4ae8c1e3339125f6b3a637ae7f77c0dcb9c1b8ade930795bf1a, gemm.batched.forward.accumulate
    c9b7a0ecc2440a22ad5ced95a5baf6356357054f0f7363d487a76ef174480708, gemm.batched.grad_a
    a0901bc3c83091922c342769645759d748143d3366247c9b6909e1a3cd41c79d, gemm.batched.grad_a.accumulate
    bc3e4fcd6b30295ddd3c1c70814066d7a76fbf486cef400f9e52bca9b36f54c9, gemm.batched.grad_b
    396737f62058b9aaaf2fa19329471057b2990af57cb37ae686b46782358b40f1, gemm.batched.grad_b.accumulate
    e5f60416e4ad99422c117019127f5a1533c39e5e5d30e8a5e44a466416759dfa *)

From Coq Require Import List Arith.
Import ListNotations.

Section Chain.
  Variables (Acc Term : Type) (step : Acc -> Term -> Acc).

  Definition chain (acc : Acc) (terms : list Term) : Acc := fold_left step terms acc.

  (** A chain may be cut into pieces anywhere, and in any number of them, where the accumulator is
      carried from one piece to the next: a block of k leaves the bits alone.

      Rests on it: lower/cpu/matmul.plan, whose depth is that of a block of k;
      lower/cpu.contraction; reference.products. *)
  Theorem chain_cut : forall (pieces : list (list Term)) (acc : Acc),
    fold_left chain pieces acc = chain acc (concat pieces).
  Proof.
    induction pieces as [|piece pieces IH]; intros acc; simpl; [reflexivity|].
    rewrite IH. unfold chain. now rewrite fold_left_app.
  Qed.

  (** A result is computed in tasks. A task works on a tile, any set of elements, and adds to each
      of them the terms of one piece of k. [term i k] is the k-th term of element i: for a matrix
      product, the k-th element of its row of the left operand and of its column of the right one. *)
  Variables (Element : Type) (term : Element -> nat -> Term).

  Record task := { tile : Element -> bool; piece : list nat }.

  Definition run (sums : Element -> Acc) (t : task) : Element -> Acc :=
    fun i => if tile t i then chain (sums i) (map (term i) (piece t)) else sums i.

  Definition pieces_of (i : Element) (tasks : list task) : list (list nat) :=
    map piece (filter (fun t => tile t i) tasks).

  Lemma run_tasks : forall tasks sums i,
    fold_left run tasks sums i = chain (sums i) (map (term i) (concat (pieces_of i tasks))).
  Proof.
    unfold pieces_of.
    induction tasks as [|t tasks IH]; intros sums i; [reflexivity|].
    simpl. rewrite IH. unfold run. destruct (tile t i); simpl; [|reflexivity].
    unfold chain. now rewrite map_app, fold_left_app.
  Qed.

  (** Tiles of any shape, in any order, each with its own cuts of k: if the pieces that the tasks
      add to an element are, in the order of the tasks, 0 to K−1, then the element has the bits of
      the one chain over k. The other elements, and the tasks that do not touch this one, are
      arbitrary: every tiling of M and N, every cut of k, every division among workers.

      Rests on it: lower/cpu/matmul.plan; lower/cpu/matmul.blocking, none of whose sizes can change a
      result; lower/cpu.contraction; lower/cpu/mma.worker. *)
  Theorem chain_tiled : forall (K : nat) (tasks : list task) (sums : Element -> Acc) (i : Element),
    concat (pieces_of i tasks) = seq 0 K ->
    fold_left run tasks sums i = chain (sums i) (map (term i) (seq 0 K)).
  Proof.
    intros K tasks sums i cut. now rewrite run_tasks, cut.
  Qed.
End Chain.
