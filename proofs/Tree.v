(** * Trees of neighbours

    Lanes, panels and the sums of rows are added as neighbours, then neighbouring sums, and so on:
    s[i] = s[2i] + s[2i+1] until one is left. One without a neighbour is passed on unchanged. The
    addition is any function of two values.

    Speaks of: softmax.forward 5b8ecb97e5e83a1a7f60aa9f6ec773e0bcf2fd18c2e3b1feb6d3feb46c8fba7b, crossentropy
    cde8c54721712a93e11e4d25c623104ecbcfdbfc0def3109b858c60c63bd3835, layernorm.forward
    bc5fa27d5a3c258b731b708667a4b1ee68481c6332248a555b7d4884aaa3fb1e, norm.square_sum
    c63ede4b1123833b0b872bc8279f7521232aeefc34555824a4d6e9c8fc666102, gemm.forward
    05c9f276a7bf19bb9bbd04d4474224aef1dc64968901a71a1e04d0288be08603 *)

From Coq Require Import List Arith Lia.
Import ListNotations.

Section Tree.
  Variables (A : Type) (zero : A) (add : A -> A -> A).

  (** One level: neighbours are added. *)
  Fixpoint level (x : list A) : list A :=
    match x with
    | a :: b :: rest => add a b :: level rest
    | _ => x
    end.

  Fixpoint levels (n : nat) (x : list A) : list A :=
    match n with
    | 0 => x
    | S n => levels n (level x)
    end.

  (** As many levels as there are values are enough, since one value stays as it is. *)
  Definition tree (x : list A) : A := hd zero (levels (length x) x).

  (** A list is cut into blocks of n; the last may be shorter, and none is empty. *)
  Fixpoint blocks_of (n : nat) (blocks : list (list A)) : Prop :=
    match blocks with
    | [] => True
    | [last] => 0 < length last <= n
    | block :: rest => length block = n /\ blocks_of n rest
    end.

  Lemma list_ind2 : forall P : list A -> Prop,
    P [] -> (forall a, P [a]) -> (forall a b x, P x -> P (a :: b :: x)) -> forall x, P x.
  Proof.
    intros P H0 H1 H2. fix IH 1. intros [|a [|b x]]; [exact H0 | apply H1 | apply H2, IH].
  Qed.

  Lemma level_length : forall x, length (level x) = (length x + 1) / 2.
  Proof.
    induction x as [| |a b x IH] using list_ind2; [reflexivity | reflexivity |].
    simpl length. rewrite IH. replace (S (S (length x)) + 1) with (length x + 1 + 1 * 2) by lia.
    rewrite Nat.div_add by lia. lia.
  Qed.

  Lemma levels_level : forall n x, levels n (level x) = level (levels n x).
  Proof. induction n as [|n IH]; intros x; simpl; [reflexivity | now rewrite IH]. Qed.

  Lemma levels_add : forall m n x, levels (m + n) x = levels n (levels m x).
  Proof. induction m as [|m IH]; intros n x; simpl; [reflexivity | apply IH]. Qed.

  Lemma levels_one : forall n a, levels n [a] = [a].
  Proof. induction n as [|n IH]; intros a; simpl; [reflexivity | apply IH]. Qed.

  Lemma level_app : forall n x y, length x = 2 * n -> level (x ++ y) = level x ++ level y.
  Proof.
    induction n as [|n IH]; intros x y len.
    - destruct x; [reflexivity | simpl in len; lia].
    - destruct x as [|a [|b x]]; simpl in len; try lia.
      simpl. f_equal. apply IH. lia.
  Qed.

  Lemma level_concat : forall n blocks,
    blocks_of (2 * n) blocks -> level (concat blocks) = concat (map level blocks).
  Proof.
    intros n. induction blocks as [|x blocks IH]; intros cut; [reflexivity|].
    destruct blocks as [|y blocks]; [simpl; now rewrite !app_nil_r|].
    destruct cut as [len cut]. change (concat (x :: y :: blocks)) with (x ++ concat (y :: blocks)).
    rewrite (level_app n) by exact len. now rewrite IH.
  Qed.

  Lemma level_blocks : forall n blocks,
    blocks_of (2 * n) blocks -> blocks_of n (map level blocks).
  Proof.
    intros n. induction blocks as [|x blocks IH]; intros cut; [exact I|].
    destruct blocks as [|y blocks].
    - simpl in cut. simpl. rewrite level_length. split.
      + apply Nat.div_str_pos. lia.
      + apply Nat.lt_succ_r, Nat.div_lt_upper_bound; lia.
    - destruct cut as [len cut]. split; [|now apply IH].
      rewrite level_length, len. replace (2 * n + 1) with (1 + n * 2) by lia.
      rewrite Nat.div_add by lia. reflexivity.
  Qed.

  Lemma levels_concat : forall a blocks, blocks_of (2 ^ a) blocks ->
    levels a (concat blocks) = concat (map (levels a) blocks) /\ blocks_of 1 (map (levels a) blocks).
  Proof.
    induction a as [|a IH]; intros blocks cut.
    - simpl. rewrite map_id. now split.
    - simpl levels. rewrite Nat.pow_succ_r' in cut.
      rewrite (level_concat _ _ cut). destruct (IH _ (level_blocks _ _ cut)) as [eq one].
      rewrite eq. rewrite map_map in *. now split.
  Qed.

  Lemma levels_long : forall n x, 0 < length x <= 2 ^ n -> exists s, levels n x = [s].
  Proof.
    intros n x len. destruct (levels_concat n [x]) as [_ one]; [exact len|].
    simpl in one. destruct (levels n x) as [|s [|]]; simpl in one; try lia. now exists s.
  Qed.

  (** Any number of levels that leaves one value gives the tree. *)
  Lemma tree_levels : forall n x, length x <= 2 ^ n -> tree x = hd zero (levels n x).
  Proof.
    intros n [|a x] len; [unfold tree; simpl; induction n; simpl; auto; apply IHn; simpl; lia|].
    unfold tree. set (l := a :: x) in *.
    assert (pos : 0 < length l) by (simpl; lia).
    destruct (levels_long n l) as [s E]; [lia|].
    destruct (levels_long (length l) l) as [t F]; [split; [lia | apply Nat.lt_le_incl, Nat.pow_gt_lin_r; lia]|].
    rewrite E, F. simpl. destruct (Nat.le_ge_cases n (length l)) as [le|le].
    - replace (length l) with (n + (length l - n)) in F by lia. rewrite levels_add, E, levels_one in F. congruence.
    - replace n with (length l + (n - length l)) in E by lia. rewrite levels_add, F, levels_one in E. congruence.
  Qed.

  Lemma blocks_length : forall n blocks, blocks_of n blocks ->
    length (concat blocks) <= n * length blocks.
  Proof.
    intros n. induction blocks as [|x blocks IH]; intros cut; [simpl; lia|].
    destruct blocks as [|y blocks]; [simpl in *; rewrite app_nil_r; lia|].
    destruct cut as [len cut]. change (concat (x :: y :: blocks)) with (x ++ concat (y :: blocks)).
    rewrite app_length, len. specialize (IH cut). simpl length in *. lia.
  Qed.

  Lemma blocks_each : forall n blocks x, blocks_of n blocks -> 0 < n -> In x blocks -> 0 < length x <= n.
  Proof.
    intros n. induction blocks as [|y blocks IH]; intros x cut pos H; [destruct H|].
    destruct blocks as [|z blocks].
    - destruct H as [<-|[]]. exact cut.
    - destruct cut as [len cut]. destruct H as [<-|H]; [lia | now apply IH].
  Qed.

  (** The tree is the tree of its subtrees: cut the values into blocks of 2^a neighbours, the last
      perhaps shorter, add each block as a tree, and the blocks' sums as a tree. So a register, a
      thread, a warp, a block of threads or a machine may own a block.

      Rests on it: num.Tree; num.TreeRows; num.LaneSum; def.Panels; lower/cpu/mma.worker.addPanel. *)
  Theorem tree_of_subtrees : forall (a : nat) (blocks : list (list A)),
    blocks_of (2 ^ a) blocks ->
    tree (concat blocks) = tree (map tree blocks).
  Proof.
    intros a blocks cut.
    assert (pos : 0 < 2 ^ a) by (apply Nat.neq_0_lt_0, Nat.pow_nonzero; lia).
    assert (big : length blocks <= 2 ^ length blocks) by (apply Nat.lt_le_incl, Nat.pow_gt_lin_r; lia).
    rewrite (tree_levels (a + length blocks)).
    2: { rewrite Nat.pow_add_r. eapply Nat.le_trans; [apply (blocks_length _ _ cut)|]. now apply Nat.mul_le_mono_l. }
    rewrite (tree_levels (length blocks) (map _ _)) by now rewrite map_length.
    rewrite levels_add. destruct (levels_concat a blocks cut) as [-> _]. do 2 f_equal.
    assert (each : forall x, In x blocks -> levels a x = [tree x]).
    { intros x H. assert (len := blocks_each _ _ x cut pos H).
      destruct (levels_long a x len) as [s E]. rewrite (tree_levels a) by lia. now rewrite E. }
    clear cut big. induction blocks as [|x blocks IH]; [reflexivity|].
    simpl. rewrite each by now left. simpl. f_equal. apply IH. intros y H. apply each. now right.
  Qed.

  (** Level by level is the same as recursion that cuts at the largest power of two below the
      length.

      Rests on it: num.Tree, which is written so, and def.Fold and reference.products, which go
      level by level. *)
  Theorem tree_cut : forall (a : nat) (x : list A),
    2 ^ a < length x <= 2 ^ S a ->
    tree x = add (tree (firstn (2 ^ a) x)) (tree (skipn (2 ^ a) x)).
  Proof.
    intros a x len. rewrite Nat.pow_succ_r' in len.
    rewrite <- (firstn_skipn (2 ^ a) x) at 1.
    rewrite <- (app_nil_r (skipn _ x)) at 1.
    change (firstn (2 ^ a) x ++ skipn (2 ^ a) x ++ []) with (concat [firstn (2 ^ a) x; skipn (2 ^ a) x]).
    rewrite (tree_of_subtrees a); [reflexivity|].
    simpl. rewrite firstn_length, skipn_length. lia.
  Qed.
End Tree.

Section Empty.
  Variables (A : Type) (zero : A) (add : A -> A -> A).

  (** An empty lane adds nothing. *)
  Definition add_some (x y : option A) : option A :=
    match x, y with
    | Some x, Some y => Some (add x y)
    | Some x, None => Some x
    | None, y => y
    end.

  Lemma level_none : forall n, exists m, level _ add_some (repeat None n) = repeat None m.
  Proof.
    intros n. induction n as [[|[|n]] IH] using lt_wf_ind; [now exists 0 | now exists 1 |].
    destruct (IH n) as [m E]; [lia|]. exists (S m). simpl. now rewrite E.
  Qed.

  Lemma level_some : forall x n, exists m,
    level _ add_some (map Some x ++ repeat None n) = map Some (level _ add x) ++ repeat None m.
  Proof.
    intros x. induction x as [| |a b x IH] using list_ind2; intros n.
    - apply level_none.
    - destruct n as [|n]; [now exists 0|]. destruct (level_none n) as [m E].
      exists m. simpl. now rewrite E.
    - destruct (IH n) as [m E]. exists m. simpl. now rewrite E.
  Qed.

  (** Empty lanes or panels at the end change nothing: any power of two that is large enough gives
      the same bits.

      Rests on it: num.Tree; num.RowLanes; num.ColLanes; def.Panels, whose last panels may be empty. *)
  Theorem tree_padded : forall (x : list A) (n : nat), x <> [] ->
    tree _ None add_some (map Some x ++ repeat None n) = Some (tree _ zero add x).
  Proof.
    intros x n nonempty.
    assert (big : length (map Some x ++ repeat None n) <= 2 ^ (length x + n)).
    { rewrite app_length, map_length, repeat_length. apply Nat.lt_le_incl, Nat.pow_gt_lin_r. lia. }
    assert (enough : length x <= 2 ^ (length x + n)) by (rewrite app_length, map_length in big; lia).
    assert (pos : 0 < length x) by (destruct x; [congruence | simpl; lia]).
    rewrite (tree_levels _ _ _ _ _ big), (tree_levels _ zero add _ _ enough).
    destruct (levels_long _ add _ x (conj pos enough)) as [s E]. rewrite E.
    assert (H : forall k y m, exists m', levels _ add_some k (map Some y ++ repeat None m) = map Some (levels _ add k y) ++ repeat None m').
    { induction k as [|k IH]; intros y m; [now exists m|]. simpl.
      destruct (level_some y m) as [m' F]. rewrite F. apply IH. }
    destruct (H (length x + n) x n) as [m F]. rewrite F, E. reflexivity.
  Qed.
End Empty.
