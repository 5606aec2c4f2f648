(** * Sums in lanes

    Every sum of a rowwise definition deals its terms to lanes, term k to lane k mod L, adds each lane in ascending
    order, and adds the lanes as neighbours in a binary tree. Like def.Fold in Go, the functions here add whatever has
    an addition: real numbers, rounded numbers, or trees, which gives the order as a tree of Sum.v.

    Speaks of: softmax.forward 5b8ecb97e5e83a1a7f60aa9f6ec773e0bcf2fd18c2e3b1feb6d3feb46c8fba7b, crossentropy
    cde8c54721712a93e11e4d25c623104ecbcfdbfc0def3109b858c60c63bd3835, layernorm.forward
    bc5fa27d5a3c258b731b708667a4b1ee68481c6332248a555b7d4884aaa3fb1e, layernorm.backward
    24ff34a22e6f4b0c35004a120a22285aac40a2c12bf6e1a6bd9db51e51b29b4d, norm.square_sum
    c63ede4b1123833b0b872bc8279f7521232aeefc34555824a4d6e9c8fc666102, norm.total
    019d796f78b434f8a4e0b22ba6cfe15434542d5cbe7a395e99786a3ddbcd1094 *)

From Coq Require Import Reals List Arith Lia Lra.
From Tokitai Require Import Sum Tree.
Import ListNotations.

Lemma le_power_log2_up n : n <= 2 ^ Nat.log2_up n.
Proof. destruct n as [|[|n]]; [simpl; lia..|]. apply Nat.log2_up_spec. lia. Qed.

Section Fold.
Variables (A : Type) (zero : A) (add : A -> A -> A).

(** Adds a row to the lanes, one term to each; the last row may be short. *)
Fixpoint deal (lanes row : list A) : list A :=
  match lanes, row with a :: lanes, b :: row => add a b :: deal lanes row | _, _ => lanes end.

(** Deals further terms to the lanes, L at a time, for at most the given number of rows. *)
Fixpoint rows (n L : nat) (lanes terms : list A) : list A :=
  match n, terms with
  | S n, _ :: _ => rows n L (deal lanes (firstn L terms)) (skipn L terms)
  | _, _ => lanes
  end.

(** The sum in L lanes; each lane starts with its first term. *)
Definition lane_sum (L : nat) (x : list A) : A :=
  tree A zero add (rows (length x) L (firstn L x) (skipn L x)).

(** What holds for the terms holds for the sum, if additions keep it and raise a counter. *)
Section Invariant.
Variable P : nat -> A -> Prop.
Variable weaken : forall n m a, n <= m -> P n a -> P m a.
Variable keep : forall n a b, P n a -> P n b -> P (S n) (add a b).

Lemma level_keep n : forall k l, length l <= k -> Forall (P n) l -> Forall (P (S n)) (level A add l).
Proof.
  induction k as [|k IH]; intros [|a [|b l]] H F; simpl in *; try constructor; try lia;
    inversion F as [|? ? Ha F']; subst; auto.
  - now apply weaken with n; [lia|].
  - inversion F'; subst. auto.
  - inversion F'; subst. apply IH; [lia|easy].
Qed.

Lemma levels_keep k : forall n l, Forall (P n) l -> Forall (P (n + k)) (levels A add k l).
Proof.
  induction k as [|k IH]; intros n l F; simpl.
  - now rewrite Nat.add_0_r.
  - replace (n + S k) with (S n + k) by lia. apply IH. now apply level_keep with (length l).
Qed.

Lemma tree_keep n l : P n zero -> Forall (P n) l -> P (n + Nat.log2_up (length l)) (tree A zero add l).
Proof.
  intros Z F. rewrite (tree_levels A zero add (Nat.log2_up (length l))) by apply le_power_log2_up.
  pose proof (levels_keep (Nat.log2_up (length l)) n l F) as G.
  destruct (levels A add _ l); simpl.
  - apply weaken with n; [lia|easy].
  - now inversion G.
Qed.

Lemma deal_keep n : forall lanes row, Forall (P n) lanes -> Forall (P n) row -> Forall (P (S n)) (deal lanes row).
Proof.
  induction lanes as [|a lanes IH]; intros [|b row] FL FR; simpl; auto.
  - eapply Forall_impl; [|exact FL]. intros. now apply weaken with n; [lia|].
  - inversion FL; inversion FR; subst. auto.
Qed.

Lemma rows_keep L n0 : 0 < L -> forall k n lanes terms, length terms <= k -> n0 <= n ->
  Forall (P n) lanes -> Forall (P n0) terms ->
  Forall (P (n + (length terms + L - 1) / L)) (rows k L lanes terms).
Proof.
  intros HL. induction k as [|k IH]; intros n lanes terms Hk Hn FL FT; simpl;
    destruct terms as [|t terms]; try (simpl in Hk; lia);
    try (simpl length; rewrite Nat.div_small, Nat.add_0_r by lia; exact FL).
  set (x := t :: terms) in *.
  assert (E : n + (length x + L - 1) / L = S n + (length (skipn L x) + L - 1) / L).
  { rewrite skipn_length. assert (length x > 0) by (simpl; lia).
    destruct (le_lt_dec L (length x)).
    - replace (length x + L - 1) with (length x - L + L - 1 + 1 * L) by lia.
      rewrite Nat.div_add by lia. lia.
    - replace (length x - L) with 0 by lia.
      replace (length x + L - 1) with (length x - 1 + 1 * L) by lia.
      rewrite Nat.div_add by lia. rewrite !Nat.div_small by lia. lia. }
  rewrite E. apply IH.
  - rewrite skipn_length. change (length x <= S k) in Hk. lia.
  - lia.
  - apply deal_keep; [exact FL|].
    eapply Forall_impl; [intros ? ?; apply weaken with n0; eassumption|].
    rewrite <- (firstn_skipn L x) in FT. now apply Forall_app in FT.
  - rewrite <- (firstn_skipn L x) in FT. now apply Forall_app in FT.
Qed.

Lemma rows_length L : forall k lanes terms, length (rows k L lanes terms) = length lanes.
Proof.
  assert (D : forall lanes row, length (deal lanes row) = length lanes).
  { induction lanes; intros [|b row]; simpl; auto. }
  induction k as [|k IH]; intros lanes [|t terms]; simpl; auto. rewrite IH. apply D.
Qed.

Lemma lane_sum_keep L n x : 0 < L -> P n zero -> Forall (P n) x ->
  P (n + (length x - 1) / L + Nat.log2_up (Nat.min (length x) L)) (lane_sum L x).
Proof.
  intros HL Z F. unfold lane_sum.
  pose proof F as F'. rewrite <- (firstn_skipn L x) in F'. apply Forall_app in F'. destruct F' as [F1 F2].
  assert (K : length (skipn L x) <= length x) by (rewrite skipn_length; lia).
  pose proof (rows_keep L n HL (length x) n _ _ K (le_n n) F1 F2) as G.
  replace ((length (skipn L x) + L - 1) / L) with ((length x - 1) / L) in G.
  2: { rewrite skipn_length. destruct (le_lt_dec (length x) L).
       - replace (length x - L) with 0 by lia. now rewrite !Nat.div_small by lia.
       - f_equal. lia. }
  eapply weaken; [|apply (tree_keep (n + (length x - 1) / L))].
  - rewrite rows_length, firstn_length. rewrite Nat.min_comm. lia.
  - apply weaken with n; [lia|easy].
  - exact G.
Qed.
End Invariant.

(** Where the order does not matter, the sum in lanes is the sum. *)
Section AnyOrder.
Variable comm : forall a b, add a b = add b a.
Variable assoc : forall a b c, add a (add b c) = add (add a b) c.
Variable zero_l : forall a, add zero a = a.
Let sum := fold_right add zero.

Lemma sum_app l l' : sum (l ++ l') = add (sum l) (sum l').
Proof. induction l; simpl; [now rewrite zero_l|]. now rewrite IHl, assoc. Qed.

Lemma level_sum : forall k l, length l <= k -> sum (level A add l) = sum l.
Proof.
  induction k as [|k IH]; intros [|a [|b l]] H; simpl in *; try easy; try lia.
  rewrite IH by lia. now rewrite assoc.
Qed.

Lemma levels_sum k : forall l, length l <= 2 ^ k -> hd zero (levels A add k l) = sum l.
Proof.
  induction k as [|k IH]; intros l H; simpl.
  - destruct l as [|a [|b l]]; simpl in *; try lia; [easy|]. rewrite comm. now rewrite zero_l.
  - rewrite IH.
    + now apply level_sum with (length l).
    + rewrite level_length. simpl in H. apply Nat.lt_succ_r, Nat.div_lt_upper_bound; lia.
Qed.

Lemma tree_sum l : tree A zero add l = sum l.
Proof.
  rewrite (tree_levels A zero add (Nat.log2_up (length l))) by apply le_power_log2_up.
  apply levels_sum, le_power_log2_up.
Qed.

Lemma deal_sum : forall lanes row, length row <= length lanes -> sum (deal lanes row) = add (sum lanes) (sum row).
Proof.
  induction lanes as [|a lanes IH]; intros [|b row] H; simpl in *; try lia.
  - symmetry. apply zero_l.
  - rewrite (comm _ zero). symmetry. apply zero_l.
  - rewrite IH by lia. rewrite <- !assoc. f_equal. rewrite !assoc. f_equal. apply comm.
Qed.

Lemma deal_length : forall lanes row, length (deal lanes row) = length lanes.
Proof. induction lanes; intros [|b row]; simpl; auto. Qed.

Lemma rows_sum L : 0 < L -> forall k lanes terms, length terms <= k -> terms = [] \/ L <= length lanes ->
  sum (rows k L lanes terms) = add (sum lanes) (sum terms).
Proof.
  intros HL. induction k as [|k IH]; intros lanes terms Hk HT; simpl; destruct terms as [|t terms];
    try (simpl in Hk; lia); try (symmetry; unfold sum at 2; simpl fold_right; rewrite (comm _ zero); apply zero_l).
  destruct HT as [HT|HT]; [easy|]. set (x := t :: terms) in *.
  rewrite IH.
  - rewrite deal_sum by (rewrite firstn_length; lia).
    rewrite <- assoc, <- sum_app. now rewrite firstn_skipn.
  - rewrite skipn_length. change (length x <= S k) in Hk. lia.
  - right. now rewrite deal_length.
Qed.

Lemma lane_sum_sum L x : 0 < L -> lane_sum L x = sum x.
Proof.
  intros HL. unfold lane_sum. rewrite tree_sum, rows_sum.
  - rewrite <- sum_app. now rewrite firstn_skipn.
  - easy.
  - rewrite skipn_length. lia.
  - destruct (le_lt_dec (length x) L).
    + left. now apply skipn_all2.
    + right. rewrite firstn_length. lia.
Qed.
End AnyOrder.
End Fold.

(** A function that turns one addition into another turns sums into sums. *)
Section Homomorphism.
Variables (A B : Type) (zero : A) (zero' : B) (add : A -> A -> A) (add' : B -> B -> B) (f : A -> B).
Variable f_zero : f zero = zero'.
Variable f_add : forall a b, f (add a b) = add' (f a) (f b).

Lemma level_map : forall k l, length l <= k -> map f (level A add l) = level B add' (map f l).
Proof.
  induction k as [|k IH]; intros [|a [|b l]] H; simpl in *; try easy; try lia.
  rewrite f_add, IH by lia. easy.
Qed.

Lemma levels_map k : forall l, map f (levels A add k l) = levels B add' k (map f l).
Proof. induction k as [|k IH]; intros l; simpl; [easy|]. now rewrite IH, (level_map (length l)). Qed.

Lemma tree_map l : f (tree A zero add l) = tree B zero' add' (map f l).
Proof. unfold tree. rewrite map_length, <- levels_map. destruct (levels A add _ l); easy. Qed.

Lemma deal_map : forall lanes row, map f (deal A add lanes row) = deal B add' (map f lanes) (map f row).
Proof. induction lanes as [|a lanes IH]; intros [|b row]; simpl; [easy..|]. now rewrite f_add, IH. Qed.

Lemma rows_map L : forall k lanes terms,
  map f (rows A add k L lanes terms) = rows B add' k L (map f lanes) (map f terms).
Proof.
  induction k as [|k IH]; intros lanes [|t terms]; simpl; try easy.
  rewrite IH, deal_map, <- firstn_map, <- skipn_map. easy.
Qed.

Lemma lane_sum_map L x : f (lane_sum A zero add L x) = lane_sum B zero' add' L (map f x).
Proof. unfold lane_sum. now rewrite tree_map, rows_map, <- firstn_map, <- skipn_map, map_length. Qed.
End Homomorphism.

(** ** Real numbers *)

Local Open Scope R_scope.

Definition sum (x : list R) : R := fold_right Rplus 0 x.
Definition sum_abs (x : list R) : R := sum (map Rabs x).

(** The order of a sum in lanes, as a tree of Sum.v. *)
Definition lane_order (L : nat) (x : list R) : order := lane_sum order (Leaf 0) Node L (map Leaf x).

Lemma lane_order_computed add L x : computed add (lane_order L x) = lane_sum R 0 add L x.
Proof.
  unfold lane_order. rewrite (lane_sum_map order R (Leaf 0) 0 Node add); [|easy|easy].
  f_equal. rewrite map_map. apply map_id.
Qed.

Lemma lane_order_exact L x : (0 < L)%nat -> exact (lane_order L x) = sum x.
Proof.
  intros HL. unfold lane_order. rewrite (lane_sum_map order R (Leaf 0) 0 Node Rplus); [|easy|easy].
  rewrite map_map, map_id. apply lane_sum_sum; intros; try ring. easy.
Qed.

Lemma lane_order_magnitude L x : (0 < L)%nat -> magnitude (lane_order L x) = sum_abs x.
Proof.
  intros HL. unfold lane_order. rewrite (lane_sum_map order R (Leaf 0) 0 Node Rplus).
  - rewrite map_map. apply lane_sum_sum; intros; try ring. easy.
  - apply Rabs_R0.
  - easy.
Qed.

Lemma lane_order_every (P : R -> Prop) L x : (0 < L)%nat -> P 0 -> Forall P x -> every P (lane_order L x).
Proof.
  intros HL H0 F.
  pose proof (lane_sum_keep order (Leaf 0) Node (fun _ t => every P t)) as K.
  apply (K ltac:(auto) ltac:(simpl; auto) L 0%nat (map Leaf x) HL H0).
  rewrite Forall_map. exact F.
Qed.

(** The number of additions that a term passes through, for n terms in L lanes: those of its lane, and those of the
    tree over the lanes that are not empty. *)
Definition lane_height (n L : nat) : nat := (n - 1) / L + Nat.log2_up (Nat.min n L).

Lemma lane_order_height L x : (0 < L)%nat -> (height (lane_order L x) <= lane_height (length x) L)%nat.
Proof.
  intros HL.
  pose proof (lane_sum_keep order (Leaf 0) Node (fun n t => height t <= n)%nat) as K.
  specialize (K ltac:(simpl; intros; lia) ltac:(simpl; intros; lia) L 0%nat (map Leaf x) HL).
  rewrite map_length in K. refine (K (le_n 0) _).
  rewrite Forall_map. apply Forall_forall. intros. simpl. lia.
Qed.

(** A sum in L lanes is off by at most gamma(h), h its height, times the sum of magnitudes.

    Rests on it: bound.RowHeight; bound.ColHeight; def.Order.Height; num.LaneSum; truth.shape.factorAt. *)
Theorem lane_sum_error is_float add u L x :
  rounded_addition is_float add u -> is_float 0 -> Forall is_float x ->
  (0 < L)%nat -> INR (lane_height (length x) L) * u < 1 ->
  Rabs (lane_sum R 0 add L x - sum x) <= gamma u (lane_height (length x) L) * sum_abs x.
Proof.
  intros A H0 F HL H. rewrite <- lane_order_computed.
  rewrite <- (lane_order_exact L x HL), <- (lane_order_magnitude L x HL).
  apply sum_error_by_height with is_float; auto.
  - now apply lane_order_every.
  - now apply lane_order_height.
Qed.
