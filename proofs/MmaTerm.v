(** * Terms of a tensor core

    The numbers that a step of MMA.v adds, as real numbers, and what its truncations lose. Products of factors in a
    format of few bits are added to an accumulator in binary32. All operands are finite. *)

From Coq Require Import Reals List Lia Lra Psatz ZArith Bool.
From Flocq Require Import Core.
From Tokitai Require Import MMA.
Import ListNotations.
Local Open Scope Z_scope.

(** ** Factors, steps and chains *)

(** A format has so many fractional bits, and subnormal numbers have its least exponent. *)
Record format := Format { fraction : Z; least : Z }.
Definition f16 := Format 10 (-14).
Definition bf16 := Format 7 (-126).
Definition e4m3 := Format 3 (-6).
Definition e5m2 := Format 2 (-14).
Definition f32 := Format 23 (-126).

(** A number as unpack in num reads it: the leading bit is set, or the exponent is the least. *)
Definition unpacked (d : format) (t : term) : Prop :=
  Z.abs (significand t) < 2 ^ (fraction d + 1) /\
  (significand t = 0 \/ 2 ^ fraction d <= Z.abs (significand t) /\ least d <= exponent t \/ exponent t = least d).

Definition all_unpacked (d : format) (ab : list (term * term)) : Prop :=
  Forall (fun p => unpacked d (fst p) /\ unpacked d (snd p)) ab.

(** The exact product of two factors, unnormalised: its exponent is the sum of theirs. *)
Definition times (p : term * term) : term :=
  {| significand := significand (fst p) * significand (snd p); exponent := exponent (fst p) + exponent (snd p) |}.

(** What the next step unpacks from a result of R fractional bits. *)
Definition packed (R : Z) (r : Z * Z) : term :=
  {| significand := fst r * 2 ^ (23 - R); exponent := snd r + R |}.

(** A step, and a chain of steps in ascending order. *)
Definition mma_step (d : format) (F R : Z) (c : term) (ab : list (term * term)) : term :=
  packed R (step F R (2 * fraction d) c (map times ab)).

Definition mma_chain (d : format) (F R : Z) (c : term) (steps : list (list (term * term))) : term :=
  fold_left (mma_step d F R) steps c.

(** The sum of a step has an exponent beyond that of binary32, so that its result is infinite. *)
Definition overflows (d : format) (F : Z) (c : term) (ab : list (term * term)) : Prop :=
  let sum := aligned_sum F (2 * fraction d) c (map times ab) in
  sum <> 0 /\ 127 < unit F c (map times ab) + bits sum - 1.

(** ** Real numbers *)

Local Open Scope R_scope.

Definition power := bpow radix2.
Definition value (fraction : Z) (t : term) : R := IZR (significand t) * power (exponent t - fraction).
Definition value_of (d : format) (t : term) : R := value (fraction d) t.

Definition real_sum (l : list R) : R := fold_right Rplus 0 l.

(** The exact sum of a step's products. *)
Definition step_sum (d : format) (ab : list (term * term)) : R :=
  real_sum (map (fun p => value_of d (fst p) * value_of d (snd p)) ab).

(** A factor's magnitude, where a subnormal counts with the least normal number of its format. *)
Definition magnitude (d : format) (t : term) : R :=
  if (significand t =? 0)%Z then 0 else Rmax (Rabs (value_of d t)) (power (least d)).

(** The largest magnitude of a step's products. *)
Definition largest_product (d : format) (ab : list (term * term)) : R :=
  fold_right (fun p m => Rmax (magnitude d (fst p) * magnitude d (snd p)) m) 0 ab.

(** How many terms of a step of n products may lose bits when they are aligned. With F >= 23, and F at least the
    fractional bits of a product, a term of the largest exponent loses none: n of n + 1. Otherwise all may. *)
Definition may_lose (d : format) (F : Z) (n : nat) : nat :=
  if andb (23 <=? F) (2 * fraction d <=? F) then n else S n.

(** *** Alignment *)

Lemma power_pos e : 0 < power e. Proof. apply bpow_gt_0. Qed.

Lemma IZR_power n : (0 <= n)%Z -> IZR (2 ^ n) = power n.
Proof. intros H. unfold power. now rewrite <- IZR_Zpower. Qed.

Lemma align_exact s k : (0 <= k)%Z -> IZR (align s k) = IZR s * power k.
Proof.
  intros H. unfold align. rewrite (proj2 (Z.leb_le _ _) H), mult_IZR. now rewrite IZR_power.
Qed.

Lemma align_error s k : Rabs (IZR (align s k) - IZR s * power k) < 1.
Proof.
  destruct (Z_le_gt_dec 0 k) as [H|H].
  - rewrite align_exact by easy. replace (_ - _) with 0 by ring. rewrite Rabs_R0. lra.
  - unfold align. replace (0 <=? k)%Z with false by (symmetry; apply Z.leb_gt; lia).
    set (q := (2 ^ (- k))%Z). assert (Q : (0 < q)%Z) by (apply Z.pow_pos_nonneg; lia).
    assert (P : power k * IZR q = 1).
    { unfold q. rewrite IZR_power by lia. unfold power. rewrite <- bpow_plus.
      replace (k + - k)%Z with 0%Z by ring. reflexivity. }
    pose proof (Z.quot_rem' s q) as D.
    assert (M : (Z.abs (Z.rem s q) < q)%Z).
    { pose proof (Z.rem_bound_abs s q ltac:(lia)). lia. }
    assert (IZR q > 0) by now apply IZR_lt in Q.
    assert (E : IZR s = IZR q * IZR (Z.quot s q) + IZR (Z.rem s q))
      by (rewrite <- mult_IZR, <- plus_IZR; now f_equal).
    rewrite E.
    replace (IZR (Z.quot s q) - (IZR q * IZR (Z.quot s q) + IZR (Z.rem s q)) * power k)
      with (- IZR (Z.rem s q) * power k + IZR (Z.quot s q) * (1 - power k * IZR q)) by ring.
    rewrite P. replace (1 - 1) with 0 by ring. rewrite Rmult_0_r, Rplus_0_r.
    rewrite Rabs_mult, Rabs_Ropp, <- abs_IZR, (Rabs_pos_eq (power k)) by apply Rlt_le, power_pos.
    apply IZR_lt in M. apply Rmult_lt_compat_r with (r := power k) in M; [|apply power_pos]. lra.
Qed.

Lemma power_plus a b : power (a + b) = power a * power b.
Proof. apply bpow_plus. Qed.

(** *** The sum of a step after alignment *)

Lemma aligned_error f unit t :
  Rabs (IZR (align (significand t) (exponent t - f - unit)) * power unit - value f t) <= power unit.
Proof.
  pose proof (align_error (significand t) (exponent t - f - unit)) as A. unfold value.
  replace (exponent t - f)%Z with (exponent t - f - unit + unit)%Z at 2 by ring.
  rewrite power_plus, <- Rmult_assoc, <- Rmult_minus_distr_r, Rabs_mult.
  rewrite (Rabs_pos_eq (power unit)) by apply Rlt_le, power_pos.
  rewrite <- (Rmult_1_l (power unit)) at 2. apply Rmult_le_compat_r; [apply Rlt_le, power_pos|lra].
Qed.

Lemma aligned_exactly f unit t : (significand t = 0 \/ unit <= exponent t - f)%Z ->
  IZR (align (significand t) (exponent t - f - unit)) * power unit = value f t.
Proof.
  intros [H|H]; unfold value.
  - rewrite H, align_zero. ring.
  - rewrite align_exact by lia. rewrite Rmult_assoc, <- power_plus. do 2 f_equal. ring.
Qed.

Lemma times_value d p : value (2 * fraction d) (times p) = value_of d (fst p) * value_of d (snd p).
Proof.
  unfold value_of, value, times. cbn [significand exponent]. rewrite mult_IZR.
  replace (exponent (fst p) + exponent (snd p) - 2 * fraction d)%Z
    with ((exponent (fst p) - fraction d) + (exponent (snd p) - fraction d))%Z by ring.
  rewrite power_plus. ring.
Qed.

(** The largest exponent of terms that are not zero, and at least -133. *)
Definition largest (terms : list term) : Z :=
  fold_right (fun t e => if (significand t =? 0)%Z then e else Z.max (exponent t) e) (-133)%Z terms.

Lemma largest_ge t terms : In t terms -> (significand t = 0 \/ exponent t <= largest terms)%Z.
Proof.
  induction terms as [|x terms IH]; [easy|]. intros [E|H]; simpl.
  - subst x. destruct (Z.eqb_spec (significand t) 0); [now left|right; lia].
  - destruct (IH H) as [I|I]; [now left|right]. destruct (Z.eqb_spec (significand x) 0); lia.
Qed.

Lemma largest_attained terms : largest terms = (-133)%Z \/
  exists t, In t terms /\ significand t <> 0%Z /\ exponent t = largest terms.
Proof.
  induction terms as [|x terms IH]; simpl; [now left|].
  destruct (Z.eqb_spec (significand x) 0) as [E|E].
  - destruct IH as [IH|(t & I & N & X)]; [now left|right]. exists t; auto.
  - destruct (Z.max_spec (exponent x) (largest terms)) as [[_ M]|[_ M]]; rewrite M.
    + destruct IH as [IH|(t & I & N & X)]; [now left|right]. exists t; auto.
    + right. exists x. auto.
Qed.

Lemma largest_floor terms : (-133 <= largest terms)%Z.
Proof. induction terms as [|x terms IH]; simpl; [lia|]. destruct (_ =? _)%Z; lia. Qed.

Lemma unit_largest F c terms : unit F c terms = (largest (c :: terms) - F)%Z.
Proof.
  assert (G : forall l e, (-133 <= e)%Z -> fold_left larger l e = Z.max e (largest l)).
  { induction l as [|t l IH]; intros e H; simpl; [lia|].
    rewrite IH; unfold larger; destruct (significand t =? 0)%Z; lia. }
  unfold unit. rewrite G.
  - unfold larger, least_alignment. simpl. pose proof (largest_floor terms).
    destruct (significand c =? 0)%Z; lia.
  - unfold larger, least_alignment. destruct (significand c =? 0)%Z; lia.
Qed.

Lemma aligned_sum_right F point c terms :
  aligned_sum F point c terms =
  (align (significand c) (exponent c - 23 - unit F c terms) +
   fold_right Z.add 0 (map (fun t => align (significand t) (exponent t - point - unit F c terms)) terms))%Z.
Proof.
  unfold aligned_sum. generalize (unit F c terms) as w. intros w.
  generalize (align (significand c) (exponent c - 23 - w)) as z.
  induction terms as [|t l IH]; intros z; simpl; [ring|]. rewrite IH. ring.
Qed.

Section Step.
Variables (d : format) (F : Z) (c : term) (ab : list (term * term)).
Variable c_ok : unpacked f32 c.

Let products := map times ab.
Let unit := unit F c products.
Let aligned (fraction : Z) (t : term) := align (significand t) (exponent t - fraction - unit).
Let total := aligned_sum F (2 * fraction d) c products.

Let loss fraction t := Rabs (IZR (aligned fraction t) * power unit - value fraction t).

Lemma sum_of_losses f l :
  Rabs (IZR (fold_right Z.add 0%Z (map (aligned f) l)) * power unit
        - real_sum (map (value f) l)) <= real_sum (map (loss f) l).
Proof.
  induction l as [|t l IH]; simpl.
  - rewrite Rmult_0_l, Rminus_0_r, Rabs_R0. lra.
  - rewrite plus_IZR.
    match goal with |- Rabs ((?a + ?b) * ?w - (?x + ?y)) <= _ =>
      replace ((a + b) * w - (x + y)) with ((a * w - x) + (b * w - y)) by ring end.
    eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; [apply Rle_refl|exact IH].
Qed.

Lemma losses_le f l : real_sum (map (loss f) l) <= INR (length l) * power unit.
Proof.
  induction l as [|t l IH]; [simpl; lra|]. simpl length. rewrite S_INR. simpl.
  pose proof (aligned_error f unit t) as A. fold (aligned f t) in A. fold (loss f t) in A. lra.
Qed.

Lemma losses_lt f l t : In t l -> loss f t = 0 ->
  real_sum (map (loss f) l) <= (INR (length l) - 1) * power unit.
Proof.
  induction l as [|x l IH]; [easy|]. intros [E|H] Z; simpl length; rewrite S_INR; simpl.
  - subst x. rewrite Z. pose proof (losses_le f l). lra.
  - specialize (IH H Z). pose proof (aligned_error f unit x) as A. fold (aligned f x) in A. fold (loss f x) in A. lra.
Qed.

Lemma exactly f t : (significand t = 0 \/ unit <= exponent t - f)%Z -> loss f t = 0.
Proof.
  intros H. unfold loss, aligned. rewrite aligned_exactly by exact H.
  replace (_ - _) with 0 by ring. apply Rabs_R0.
Qed.

Lemma all_losses : loss 23 c + real_sum (map (loss (2 * fraction d)) products) <=
  INR (may_lose d F (length ab)) * power unit.
Proof.
  assert (N : length products = length ab) by apply map_length.
  pose proof (losses_le (2 * fraction d) products) as L. rewrite N in L.
  pose proof (aligned_error 23 unit c) as C. fold (aligned 23 c) in C. fold (loss 23 c) in C.
  unfold may_lose. destruct (andb (23 <=? F) (2 * fraction d <=? F)) eqn:E; [|rewrite S_INR; lra].
  apply andb_true_iff in E. destruct E as [E1 E2]. apply Z.leb_le in E1. apply Z.leb_le in E2.
  destruct (Z.eq_dec (significand c) 0) as [Z0|NZ].
  - rewrite (exactly 23 c) by (now left). lra.
  - destruct (largest_attained (c :: products)) as [A|(t & [I|I] & _ & X)].
    + exfalso. destruct (largest_ge c (c :: products) (or_introl eq_refl)) as [B|B]; [easy|].
      destruct c_ok as [_ [K|[[_ K]|K]]]; simpl in K; lia.
    + subst t. rewrite (exactly 23 c) by (right; unfold unit; rewrite unit_largest; lia). lra.
    + pose proof (losses_lt (2 * fraction d) products t I) as LT. rewrite N in LT.
      specialize (LT ltac:(apply exactly; right; unfold unit; rewrite unit_largest; lia)). lra.
Qed.

(** What alignment loses. *)
Lemma alignment_error :
  Rabs (IZR total * power unit - (value_of f32 c + step_sum d ab)) <=
  INR (may_lose d F (length ab)) * power unit.
Proof.
  eapply Rle_trans; [|apply all_losses].
  unfold total. rewrite aligned_sum_right, plus_IZR. fold unit. pose proof (sum_of_losses (2 * fraction d) products) as S.
  assert (E : step_sum d ab = real_sum (map (value (2 * fraction d)) products)).
  { unfold step_sum, products. rewrite map_map. f_equal. apply map_ext. intros. symmetry. apply times_value. }
  rewrite E. change (value_of f32 c) with (value 23 c).
  match goal with |- Rabs ((?a + ?b) * ?w - (?x + ?y)) <= _ =>
    replace ((a + b) * w - (x + y)) with ((a * w - x) + (b * w - y)) by ring end.
  eapply Rle_trans; [apply Rabs_triang|]. apply Rplus_le_compat; [apply Rle_refl|exact S].
Qed.
End Step.

Lemma exponent_le_magnitude d t : unpacked d t -> significand t <> 0%Z -> power (exponent t) <= magnitude d t.
Proof.
  intros [_ H] N. unfold magnitude. rewrite (proj2 (Z.eqb_neq _ _) N).
  destruct H as [H|[[H _]|H]]; [easy| |].
  - eapply Rle_trans; [|apply Rmax_l]. unfold value_of, value.
    rewrite Rabs_mult, <- abs_IZR, (Rabs_pos_eq (power _)) by apply Rlt_le, power_pos.
    destruct (Z_le_gt_dec 0 (fraction d)) as [P|P].
    + apply IZR_le in H. rewrite IZR_power in H by easy.
      replace (exponent t) with (fraction d + (exponent t - fraction d))%Z at 1 by ring.
      rewrite power_plus. apply Rmult_le_compat_r; [apply Rlt_le, power_pos|exact H].
    + assert (1 <= Z.abs (significand t))%Z by lia. apply IZR_le in H0.
      apply Rle_trans with (1 * power (exponent t - fraction d)).
      * rewrite Rmult_1_l. apply bpow_le. lia.
      * apply Rmult_le_compat_r; [apply Rlt_le, power_pos|exact H0].
  - rewrite H. apply Rmax_r.
Qed.

(** The largest exponent is below the largest magnitude. *)
Lemma largest_le d c ab : unpacked f32 c -> all_unpacked d ab ->
  power (largest (c :: map times ab)) <=
  Rmax (Rmax (Rabs (value_of f32 c)) (power (-126))) (largest_product d ab).
Proof.
  intros C P. unfold all_unpacked in P. destruct (largest_attained (c :: map times ab)) as [A|(t & [I|I] & N & X)].
  - rewrite A. eapply Rle_trans; [|apply Rmax_l]. eapply Rle_trans; [|apply Rmax_r]. apply bpow_le. lia.
  - subst t. rewrite <- X. eapply Rle_trans; [|apply Rmax_l].
    pose proof (exponent_le_magnitude f32 c C N) as M. unfold magnitude in M.
    rewrite (proj2 (Z.eqb_neq _ _) N) in M. exact M.
  - rewrite <- X. eapply Rle_trans; [|apply Rmax_r]. clear X.
    induction P as [|p ab [P1 P2] P IH]; [easy|]. simpl in I |- *. destruct I as [I|I].
    + eapply Rle_trans; [|apply Rmax_l]. subst t. unfold times in *. simpl in *. rewrite power_plus.
      apply Rmult_le_compat; try (apply Rlt_le, power_pos);
        apply exponent_le_magnitude; auto; intros E; apply N; rewrite E; ring.
    + eapply Rle_trans; [|apply Rmax_r]. auto.
Qed.

(** *** The last truncation *)

Lemma truncate_result sum unit R :
  (0 <= R <= 23)%Z ->
  unpacked f32 (packed R (truncate R sum unit)) /\
  Rabs (value_of f32 (packed R (truncate R sum unit)) - IZR sum * power unit) <=
  Rmax (power (- R) * Rabs (IZR sum * power unit)) (power (-126 - R)).
Proof.
  intros HR. unfold truncate, bits, least_exponent. destruct (Z.eqb_spec sum 0) as [Z0|NZ].
  - subst sum. split.
    + split; cbn [packed significand exponent fst snd fraction f32]; [rewrite Z.mul_0_l; lia|]. left. apply Z.mul_0_l.
    + unfold value_of, value. cbn [packed significand exponent fst snd fraction f32].
      rewrite Z.mul_0_l, !Rmult_0_l, Rminus_0_r, Rabs_R0.
      eapply Rle_trans; [|apply Rmax_r]. apply Rlt_le, power_pos.
  - replace (unit + (Z.log2 (Z.abs sum) + 1) - 1)%Z with (unit + Z.log2 (Z.abs sum))%Z by ring.
    set (e := (unit + Z.log2 (Z.abs sum))%Z). set (last := (Z.max e (-126) - R)%Z).
    set (kept := align sum (unit - last)).
    pose proof (align_error sum (unit - last)) as A. fold kept in A.
    assert (S : (2 ^ (e - unit) <= Z.abs sum < 2 ^ (e - unit + 1))%Z).
    { unfold e. replace (unit + Z.log2 (Z.abs sum) - unit)%Z with (Z.log2 (Z.abs sum)) by ring.
      apply Z.log2_spec. lia. }
    assert (PN : (0 <= e - unit)%Z) by (unfold e; pose proof (Z.log2_nonneg (Z.abs sum)); lia).
    set (x := IZR sum * power (unit - last)) in *.
    assert (X : power (e - last) <= Rabs x < power (e - last + 1)).
    { unfold x. rewrite Rabs_mult, <- abs_IZR, (Rabs_pos_eq (power _)) by apply Rlt_le, power_pos.
      destruct S as [S1 S2]. apply IZR_le in S1. apply IZR_lt in S2.
      rewrite IZR_power in S1, S2 by lia.
      replace (e - last)%Z with ((e - unit) + (unit - last))%Z by ring.
      replace (e - unit + (unit - last) + 1)%Z with ((e - unit + 1) + (unit - last))%Z by ring.
      rewrite (power_plus (e - unit) (unit - last)), (power_plus (e - unit + 1) (unit - last)). split.
      - apply Rmult_le_compat_r; [apply Rlt_le, power_pos|exact S1].
      - apply Rmult_lt_compat_r; [apply power_pos|exact S2]. }
    assert (KX : Rabs (IZR kept) <= Rabs x).
    { destruct (Z_le_gt_dec 0 (unit - last)) as [G|G].
      - unfold kept, x. rewrite align_exact by easy. apply Rle_refl.
      - unfold kept, x, align. replace (0 <=? unit - last)%Z with false by (symmetry; apply Z.leb_gt; lia).
        rewrite Rabs_mult, <- !abs_IZR, (Rabs_pos_eq (power _)) by apply Rlt_le, power_pos.
        set (q := (2 ^ (- (unit - last)))%Z). assert (Q : (0 < q)%Z) by (apply Z.pow_pos_nonneg; lia).
        apply Rmult_le_reg_r with (IZR q); [now apply IZR_lt|].
        rewrite Rmult_assoc. unfold q at 3. rewrite IZR_power, <- power_plus by lia.
        replace (unit - last + - (unit - last))%Z with 0%Z by ring. change (power 0) with 1.
        rewrite Rmult_1_r, <- mult_IZR. apply IZR_le.
        rewrite <- Z.quot_abs by lia. rewrite (Z.abs_eq q) by lia. rewrite Z.mul_comm.
        apply Z.mul_quot_le; lia. }
    assert (HI : (Z.abs kept < 2 ^ (R + 1))%Z).
    { apply lt_IZR. rewrite abs_IZR, IZR_power by lia. eapply Rle_lt_trans; [exact KX|].
      eapply Rlt_le_trans; [apply X|]. apply bpow_le. unfold last. lia. }
    assert (LO : (-126 <= e -> 2 ^ R <= Z.abs kept)%Z).
    { intros G. assert (L : (2 ^ R - 1 < Z.abs kept)%Z); [|lia].
      apply lt_IZR. rewrite minus_IZR, abs_IZR, IZR_power by lia.
      assert (power R <= Rabs x).
      { eapply Rle_trans; [|apply X]. apply bpow_le. unfold last. lia. }
      assert (Rabs x <= Rabs (IZR kept) + Rabs (IZR kept - x)).
      { replace x with (IZR kept + - (IZR kept - x)) at 1 by ring.
        eapply Rle_trans; [apply Rabs_triang|]. rewrite Rabs_Ropp. lra. }
      lra. }
    assert (D : (2 ^ (23 - R) * 2 ^ R = 2 ^ 23)%Z) by (rewrite <- Z.pow_add_r by lia; f_equal; lia).
    assert (D' : (2 ^ (23 - R) * 2 ^ (R + 1) = 2 ^ 24)%Z) by (rewrite <- Z.pow_add_r by lia; f_equal; lia).
    assert (P : (0 < 2 ^ (23 - R))%Z) by (apply Z.pow_pos_nonneg; lia).
    split.
    + split; cbn [packed fst snd significand exponent fraction least f32].
      * rewrite Z.abs_mul, (Z.abs_eq (2 ^ (23 - R))) by lia. change (2 ^ (23 + 1))%Z with (2 ^ 24)%Z.
        rewrite <- D'. nia.
      * destruct (Z_le_gt_dec (-126) e) as [G|G].
        -- right. left. split; [|unfold last; lia]. specialize (LO G).
           rewrite Z.abs_mul, (Z.abs_eq (2 ^ (23 - R))) by lia.
           rewrite <- D. nia.
        -- right. right. unfold last. lia.
    + assert (V : value_of f32 (packed R (kept, last)) = IZR kept * power last).
      { unfold value_of, value. cbn [packed fst snd significand exponent fraction f32].
        rewrite mult_IZR, IZR_power, Rmult_assoc, <- power_plus by lia. do 2 f_equal. ring. }
      rewrite V.
      assert (T : IZR sum * power unit = x * power last).
      { unfold x. rewrite Rmult_assoc, <- power_plus. do 2 f_equal. ring. }
      rewrite T, <- Rmult_minus_distr_r, Rabs_mult, (Rabs_pos_eq (power last)) by apply Rlt_le, power_pos.
      apply Rle_trans with (power last); [rewrite <- (Rmult_1_l (power last)) at 2;
        apply Rmult_le_compat_r; [apply Rlt_le, power_pos|lra]|].
      destruct (Z_le_gt_dec (-126) e) as [G|G].
      * eapply Rle_trans; [|apply Rmax_l].
        rewrite Rabs_mult, (Rabs_pos_eq (power last)) by apply Rlt_le, power_pos.
        apply Rle_trans with (power (- R) * (power (e - last) * power last)).
        -- rewrite <- !power_plus. apply bpow_le. unfold last. lia.
        -- apply Rmult_le_compat_l; [apply Rlt_le, power_pos|].
           apply Rmult_le_compat_r; [apply Rlt_le, power_pos|apply X].
      * eapply Rle_trans; [|apply Rmax_r]. apply bpow_le. unfold last. lia.
Qed.

Lemma no_overflow d F c ab :
  Rabs (IZR (aligned_sum F (2 * fraction d) c (map times ab)) * power (unit F c (map times ab))) < power 128 ->
  ~ overflows d F c ab.
Proof.
  intros H. unfold overflows. set (sum := aligned_sum _ _ _ _) in *. set (w := unit _ _ _) in *.
  intros [NZ E]. revert H. apply Rle_not_lt. unfold bits in E. rewrite (proj2 (Z.eqb_neq _ _) NZ) in E.
  rewrite Rabs_mult, <- abs_IZR, (Rabs_pos_eq (power _)) by apply Rlt_le, power_pos.
  pose proof (Z.log2_spec (Z.abs sum) ltac:(lia)) as [S _]. pose proof (Z.log2_nonneg (Z.abs sum)).
  apply IZR_le in S. rewrite IZR_power in S by easy.
  apply Rle_trans with (power (Z.log2 (Z.abs sum)) * power w).
  - rewrite <- power_plus. apply bpow_le. lia.
  - apply Rmult_le_compat_r; [apply Rlt_le, power_pos|exact S].
Qed.
