(** * Panels

    The model panels(m,P): the sum is cut into panels, each is a chain from +0, and the panels'
    sums are added as a tree of neighbours; an old result is added last. Any worker may compute any
    panel, and workers run at the same time. The steps of a chain are any function: those of the
    fma chain, and those of a tensor core, which take several products at a time.

    Speaks of: gemm.forward 05c9f276a7bf19bb9bbd04d4474224aef1dc64968901a71a1e04d0288be08603, gemm.grad_a
    1556e032c5e98a0acb5516db49e5c95bf5e533a5f57b679af15eb35ae73e1878, gemm.grad_b
    8e3c3c459c304e5da3a3e5661ab12d0fed8b2d2b66f1307f2b1eb3d3dd3f47c6, gemm.batched.forward
    ec1da9ba2e12c4ae8c1e3339125f6b3a637ae7f77c0dcb9c1b8ade930795bf1a, gemm.batched.grad_a
    a0901bc3c83091922c342769645759d748143d3366247c9b6909e1a3cd41c79d, gemm.batched.grad_b
    396737f62058b9aaaf2fa19329471057b2990af57cb37ae686b46782358b40f1 *)

From Coq Require Import List Arith Lia.
From Tokitai Require Import Chain Tree.
Import ListNotations.

Section Panels.
  Variables (Acc Term : Type) (step : Acc -> Term -> Acc) (zero : Acc) (add : Acc -> Acc -> Acc).

  Notation chain := (chain Acc Term step).
  Notation tree := (tree Acc zero add).

  Definition panels_model (panels : list (list Term)) : Acc := tree (map (chain zero) panels).

  (** What a worker does next: it adds some terms to the sum of a panel. *)
  Record work := { panel : nat; terms : list Term }.

  Definition do (sums : nat -> Acc) (w : work) : nat -> Acc :=
    fun p => if p =? panel w then chain (sums p) (terms w) else sums p.

  Definition of_panel (p : nat) (program : list work) : list work :=
    filter (fun w => p =? panel w) program.

  (** A trace is what happens, with the worker who does it. *)
  Definition done_by (worker : nat) (trace : list (nat * work)) : list work :=
    map snd (filter (fun event => worker =? fst event) trace).

  Definition sums_after (trace : list (nat * work)) : nat -> Acc :=
    fold_left do (map snd trace) (fun _ => zero).

  Lemma sums_of_panel : forall program sums p,
    fold_left do program sums p = chain (sums p) (concat (map terms (of_panel p program))).
  Proof.
    induction program as [|w program IH]; intros sums p; [reflexivity|].
    simpl. rewrite IH. unfold do. destruct (p =? panel w); simpl; [|reflexivity].
    unfold Chain.chain. now rewrite fold_left_app.
  Qed.

  Lemma of_owner : forall owner p trace,
    (forall worker w, In w (done_by worker trace) -> owner (panel w) = worker) ->
    of_panel p (map snd trace) = of_panel p (done_by (owner p) trace).
  Proof.
    intros owner p. unfold done_by, of_panel.
    induction trace as [|[worker w] trace IH]; intros own; [reflexivity|].
    assert (IH' := IH (fun v x H => own v x (ltac:(simpl; destruct (v =? worker); [right; exact H | exact H])))).
    simpl. destruct (p =? panel w) eqn:E.
    - apply Nat.eqb_eq in E. subst p.
      assert (F : owner (panel w) = worker) by (apply own; simpl; rewrite Nat.eqb_refl; now left).
      rewrite F in *. rewrite Nat.eqb_refl. simpl. rewrite Nat.eqb_refl. f_equal. exact IH'.
    - destruct (owner p =? worker); simpl; [rewrite E|]; exact IH'.
  Qed.

  (** Give each panel to a worker, its owner. Each worker goes through its panels in any order, a
      panel's terms ascending, in one piece or several; what different workers do happens in any
      order. The result is that of the model.

      Rests on it: def.Panels, whose panels may be computed by different cores, blocks or machines;
      reference.products.sum; lower/cpu/mma.worker.chain. *)
  Theorem panels_over_workers : forall (panels : list (list Term)) (owner : nat -> nat)
      (trace : list (nat * work)),
    (forall worker w, In w (done_by worker trace) -> owner (panel w) = worker) ->
    (forall p, p < length panels ->
      concat (map terms (of_panel p (done_by (owner p) trace))) = nth p panels []) ->
    tree (map (sums_after trace) (seq 0 (length panels))) = panels_model panels.
  Proof.
    intros panels owner trace own complete. unfold panels_model. f_equal.
    transitivity (map (chain zero) (map (fun p => nth p panels []) (seq 0 (length panels)))).
    - rewrite map_map. apply map_ext_in. intros p H. apply in_seq in H.
      unfold sums_after. rewrite sums_of_panel, (of_owner owner) by exact own.
      now rewrite complete by lia.
    - f_equal. clear. induction panels as [|x panels IH]; [reflexivity|].
      simpl. f_equal. rewrite <- seq_shift, map_map. exact IH.
  Qed.

  (** A worker that owns 2^a neighbouring panels may add their sums itself, as a tree; then the
      workers' sums are added as a tree.

      Rests on it: def.Panels; lower/cpu/mma.worker.joinTrees. *)
  Theorem panels_of_neighbours : forall (a : nat) (shares : list (list (list Term))),
    blocks_of _ (2 ^ a) shares ->
    panels_model (concat shares) = tree (map panels_model shares).
  Proof.
    intros a shares cut. unfold panels_model. rewrite concat_map.
    rewrite (tree_of_subtrees _ _ _ a).
    - now rewrite map_map.
    - revert cut. induction shares as [|x shares IH]; intros cut; [exact I|].
      destruct shares as [|y shares]; simpl in *; rewrite map_length; [exact cut|].
      split; [apply cut | apply IH, cut].
  Qed.
End Panels.
