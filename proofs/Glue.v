(** * Gluing

    A result that is too large to judge at once is judged in parts, by tiles, shards, ranks or
    pages. Verdicts on parts make a verdict on the whole if the parts cover it, and if parts that
    overlap saw the same values there. In the language of sheaves: sections that agree on overlaps
    glue to one section, and to one only.

    Speaks of: no definition alone: verdicts on the parts of any result. *)

From Coq Require Import List Arith Lia Bool.
Import ListNotations.

Section Cover.
  Variables (Index Value : Type) (default : Value).

  (** A section: what it covers, and the values it saw there. *)
  Record section := { covers : Index -> bool; value : Index -> Value }.

  Definition agree (sections : list section) : Prop :=
    forall s t i, In s sections -> In t sections ->
      covers s i = true -> covers t i = true -> value s i = value t i.

  Definition extends (whole : Index -> Value) (sections : list section) : Prop :=
    forall s i, In s sections -> covers s i = true -> whole i = value s i.

  Definition glued (sections : list section) (i : Index) : Value :=
    match find (fun s => covers s i) sections with
    | Some s => value s i
    | None => default
    end.

  Lemma glued_extends : forall sections, agree sections -> extends (glued sections) sections.
  Proof.
    intros sections same s i H C. unfold glued.
    destruct (find (fun s => covers s i) sections) as [t|] eqn:E.
    - apply find_some in E. destruct E. now apply same.
    - apply find_none with (x := s) in E; [congruence | exact H].
  Qed.

  (** Sections over any set of indices: if they cover a part of it, each is right where it looked,
      and overlaps agree, then there is one whole that extends them all, its values on that part
      are unique, and they are right. Right is any property of an index and a value.

      Rests on it: verify.Grid.Glue; verify/glue.Join. *)
  Theorem sections_glue : forall (right : Index -> Value -> Prop) (part : Index -> Prop) (sections : list section),
    (forall i, part i -> exists s, In s sections /\ covers s i = true) ->
    (forall s i, In s sections -> covers s i = true -> right i (value s i)) ->
    agree sections ->
    exists whole, extends whole sections /\
      (forall i, part i -> right i (whole i)) /\
      (forall other, extends other sections -> forall i, part i -> other i = whole i).
  Proof.
    intros right part sections cover judged same. exists (glued sections).
    assert (ext := glued_extends sections same). split; [exact ext|]. split.
    - intros i H. destruct (cover i H) as (s & I & C). rewrite (ext s i I C). now apply judged.
    - intros other also i H. destruct (cover i H) as (s & I & C).
      now rewrite (ext s i I C), (also s i I C).
  Qed.
End Cover.

(** What is evaluated: each section has hashes of the pieces that it saw, and a count of mismatches.
    The first hash of a piece is kept; another one is a conflict. *)
Section Evaluated.
  Variables (Key Hash : Type).
  Variable same_key : forall a b : Key, {a = b} + {a <> b}.
  Variable same_hash : forall a b : Hash, {a = b} + {a <> b}.

  Fixpoint lookup (k : Key) (seen : list (Key * Hash)) : option Hash :=
    match seen with
    | [] => None
    | (l, h) :: rest => if same_key k l then Some h else lookup k rest
    end.

  Record state := { seen : list (Key * Hash); conflicts : nat }.

  Definition see (s : state) (piece : Key * Hash) : state :=
    match lookup (fst piece) (seen s) with
    | None => {| seen := piece :: seen s; conflicts := conflicts s |}
    | Some h => {| seen := seen s; conflicts := conflicts s + if same_hash h (snd piece) then 0 else 1 |}
    end.

  Definition see_all (pieces : list (Key * Hash)) : state :=
    fold_left see pieces {| seen := []; conflicts := 0 |}.

  (** Sizes of the pieces of the whole, and of those that were seen. *)
  Definition elements (whole : list (Key * nat)) : nat := list_sum (map snd whole).

  Definition covered (whole : list (Key * nat)) (s : state) : nat :=
    list_sum (map (fun p => if lookup (fst p) (seen s) then snd p else 0) whole).

  Definition is_whole (whole : list (Key * nat)) (pieces : list (Key * Hash)) : Prop :=
    let s := see_all pieces in covered whole s = elements whole /\ conflicts s = 0.

  Lemma conflicts_grow : forall pieces s, conflicts s <= conflicts (fold_left see pieces s).
  Proof.
    induction pieces as [|p pieces IH]; intros s; [simpl; lia|].
    simpl. specialize (IH (see s p)). unfold see at 1 in IH.
    destruct (lookup (fst p) (seen s)); simpl in *; lia.
  Qed.

  Lemma lookup_kept : forall pieces s k h,
    lookup k (seen s) = Some h -> lookup k (seen (fold_left see pieces s)) = Some h.
  Proof.
    induction pieces as [|p pieces IH]; intros s k h known; [exact known|].
    simpl. apply IH. unfold see. destruct (lookup (fst p) (seen s)) eqn:E; simpl; [exact known|].
    destruct p as [l g]. destruct (same_key k l) as [->|]; [simpl in E; congruence | exact known].
  Qed.

  Lemma seen_pieces : forall pieces s k h,
    conflicts (fold_left see pieces s) = conflicts s ->
    In (k, h) pieces -> lookup k (seen (fold_left see pieces s)) = Some h.
  Proof.
    induction pieces as [|p pieces IH]; intros s k h calm H; [destruct H|].
    simpl in *. assert (grow := conflicts_grow pieces (see s p)).
    assert (step : conflicts s <= conflicts (see s p)) by apply (conflicts_grow [p] s).
    assert (E : conflicts (see s p) = conflicts s) by lia.
    destruct H as [->|H]; [|apply IH; [lia | exact H]].
    apply lookup_kept. unfold see in *. simpl in *.
    destruct (lookup k (seen s)) as [g|] eqn:F; simpl in *.
    - destruct (same_hash g h) as [->|]; [exact F | lia].
    - destruct (same_key k k); [reflexivity | congruence].
  Qed.

  Lemma lookup_seen : forall pieces s k h,
    lookup k (seen (fold_left see pieces s)) = Some h -> lookup k (seen s) = Some h \/ In (k, h) pieces.
  Proof.
    induction pieces as [|[l g] pieces IH]; intros s k h H; [now left|].
    simpl in *. destruct (IH _ _ _ H) as [K|K]; [|now right; right].
    unfold see in K. simpl in K. destruct (lookup l (seen s)) eqn:E; simpl in K; [now left|].
    destruct (same_key k l) as [->|]; [right; left; congruence | now left].
  Qed.

  Lemma all_covered : forall whole s,
    (forall p, In p whole -> 0 < snd p) -> covered whole s = elements whole ->
    forall p, In p whole -> exists h, lookup (fst p) (seen s) = Some h.
  Proof.
    intros whole s. unfold covered, elements.
    assert (le : forall l, list_sum (map (fun p : Key * nat => if lookup (fst p) (seen s) then snd p else 0) l)
      <= list_sum (map snd l)).
    { induction l as [|p l IH]; simpl; [lia|]. destruct (lookup (fst p) (seen s)); lia. }
    induction whole as [|q whole IH]; intros pos eq p H; [destruct H|].
    simpl in eq. specialize (le whole). assert (0 < snd q) by (apply pos; now left).
    destruct (lookup (fst q) (seen s)) as [h|] eqn:E; [|lia].
    destruct H as [<-|H]; [now exists h|].
    apply IH; [intros r R; apply pos; now right | lia | exact H].
  Qed.

  (** The condition that is evaluated: the sizes of the pieces seen add up to that of the whole, and
      there are no conflicts. Then every piece of the whole was seen, and all who saw it saw the same.

      Rests on it: verify/glue.Join; verify/glue.Glued.IsWhole; verify.Grid.Glue. *)
  Theorem whole_is_seen : forall (whole : list (Key * nat)) (pieces : list (Key * Hash)),
    (forall p, In p whole -> 0 < snd p) ->
    is_whole whole pieces ->
    (forall k size, In (k, size) whole -> exists h, In (k, h) pieces) /\
    (forall k h g, In (k, h) pieces -> In (k, g) pieces -> h = g).
  Proof.
    intros whole pieces pos [cover calm]. split.
    - intros k size H. destruct (all_covered whole _ pos cover _ H) as [h E].
      destruct (lookup_seen _ _ _ _ E) as [K|K]; [discriminate | now exists h].
    - intros k h g P Q. unfold see_all in *.
      assert (A := seen_pieces pieces {| seen := []; conflicts := 0 |} k h calm P).
      assert (B := seen_pieces pieces {| seen := []; conflicts := 0 |} k g calm Q). congruence.
  Qed.

  (** The verdict. A report is what one judge says: the pieces it saw, with their contents, and the
      number of mismatches. Suppose that the hash tells apart the contents that were seen, that a
      judge without mismatches is right about every piece it saw, and that the condition holds with
      no mismatch in all. Then the whole has one content, every judge saw it, and it is right. *)
  Variables (Content : Type) (hash : Content -> Hash).

  Record report := { saw : list (Key * Content); mismatches : nat }.

  Definition hashes (reports : list report) : list (Key * Hash) :=
    map (fun p => (fst p, hash (snd p))) (concat (map saw reports)).

  (** This is what the gluing condition is for, and all that it needs.

      Rests on it: verify.Grid.Glue; verify/glue.Join; verify/glue.Glued. *)
  Theorem glued_is_right : forall (right : Key -> Content -> Prop) (whole : list (Key * nat)) (reports : list report) (default : Content),
    (forall p, In p whole -> 0 < snd p) ->
    (forall p q, In p (concat (map saw reports)) -> In q (concat (map saw reports)) ->
      hash (snd p) = hash (snd q) -> snd p = snd q) ->
    (forall r, In r reports -> mismatches r = 0 -> forall k c, In (k, c) (saw r) -> right k c) ->
    is_whole whole (hashes reports) ->
    list_sum (map mismatches reports) = 0 ->
    exists content : Key -> Content,
      (forall r k c, In r reports -> In (k, c) (saw r) -> content k = c) /\
      (forall k size, In (k, size) whole -> right k (content k)).
  Proof.
    intros right whole reports default pos apart judged cond none.
    destruct (whole_is_seen whole (hashes reports) pos cond) as [cover same].
    set (all := concat (map saw reports)) in *.
    assert (func : forall k c d, In (k, c) all -> In (k, d) all -> c = d).
    { intros k c d P Q. apply (apart (k, c) (k, d) P Q). simpl. apply (same k).
      - apply in_map_iff. now exists (k, c).
      - apply in_map_iff. now exists (k, d). }
    assert (member : forall r p, In r reports -> In p (saw r) -> In p all).
    { intros r p R P. apply in_concat. exists (saw r). split; [now apply in_map | exact P]. }
    assert (zero : forall r, In r reports -> mismatches r = 0).
    { clear - none. induction reports as [|q reports IH]; intros r H; [destruct H|].
      simpl in none. destruct H as [<-|H]; [lia | apply IH; [lia | exact H]]. }
    exists (fun k => match find (fun p => if same_key k (fst p) then true else false) all with
                     | Some p => snd p | None => default end).
    assert (value : forall k c, In (k, c) all ->
      match find (fun p => if same_key k (fst p) then true else false) all with
      | Some p => snd p | None => default end = c).
    { intros k c P. destruct (find _ all) as [[l d]|] eqn:E.
      - apply find_some in E. destruct E as [I T]. simpl in *.
        destruct (same_key k l) as [<-|]; [now apply (func k) | discriminate].
      - apply find_none with (x := (k, c)) in E; [|exact P]. simpl in E.
        destruct (same_key k k); congruence. }
    split.
    - intros r k c R P. apply value. now apply (member r).
    - intros k size W. destruct (cover k size W) as [h H].
      apply in_map_iff in H. destruct H as ([l c] & E & P). injection E as -> _.
      rewrite (value k c P). apply in_concat in P. destruct P as (x & X & P).
      apply in_map_iff in X. destruct X as (r & <- & R). now apply (judged r R (zero r R)).
  Qed.
End Evaluated.
