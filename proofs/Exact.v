(** * Exact sums by wrapping arithmetic

    In units of a power of two, stored values and their products are integers. Words that wrap know
    a sum modulo a power of two; a bound of the sum, or an approximation of it, says which of the
    integers with this residue it is. *)

From Coq Require Import List ZArith Lia Permutation.
Import ListNotations.
Open Scope Z_scope.

(** The integer in [−2^(n−1), 2^(n−1)) that is congruent to x modulo 2^n: a word of n bits read as
    two's complement. *)
Definition signed (n x : Z) : Z := (x + 2 ^ (n - 1)) mod 2 ^ n - 2 ^ (n - 1).

Definition sum (terms : list Z) : Z := fold_right Z.add 0 terms.

(** A sum in words of n bits, each addition wrapping. *)
Definition wrapping_sum (n : Z) (terms : list Z) : Z :=
  fold_left (fun w x => (w + x) mod 2 ^ n) terms 0.

(** A sum of products, every product and every addition wrapping. *)
Definition wrapping_dot (n : Z) (pairs : list (Z * Z)) : Z :=
  wrapping_sum n (map (fun p => (fst p mod 2 ^ n) * (snd p mod 2 ^ n)) pairs).

Definition dot (pairs : list (Z * Z)) : Z := sum (map (fun p => fst p * snd p) pairs).

Lemma signed_unique : forall n x y, 0 < n ->
  x mod 2 ^ n = y mod 2 ^ n -> - 2 ^ (n - 1) <= x < 2 ^ (n - 1) -> signed n y = x.
Proof.
  intros n x y pos same range. unfold signed.
  assert (two : 2 ^ n = 2 * 2 ^ (n - 1)) by (rewrite <- Z.pow_succ_r by lia; f_equal; lia).
  rewrite <- Zplus_mod_idemp_l, <- same, Zplus_mod_idemp_l.
  rewrite Z.mod_small; lia.
Qed.

Lemma wrapping_sum_residue : forall n terms, 0 < n ->
  wrapping_sum n terms mod 2 ^ n = sum terms mod 2 ^ n.
Proof.
  intros n terms pos. unfold wrapping_sum.
  enough (H : forall w, fold_left (fun w x => (w + x) mod 2 ^ n) terms w mod 2 ^ n = (w + sum terms) mod 2 ^ n) by apply H.
  assert (nz : 2 ^ n <> 0) by (apply Z.pow_nonzero; lia).
  induction terms as [|x terms IH]; intros w; simpl; [now rewrite Z.add_0_r|].
  rewrite IH, Zplus_mod_idemp_l. f_equal. lia.
Qed.

Lemma wrapping_dot_residue : forall n pairs, 0 < n ->
  wrapping_dot n pairs mod 2 ^ n = dot pairs mod 2 ^ n.
Proof.
  intros n pairs pos. unfold wrapping_dot, dot. rewrite wrapping_sum_residue by exact pos.
  assert (nz : 2 ^ n <> 0) by (apply Z.pow_nonzero; lia).
  induction pairs as [|p pairs IH]; [reflexivity|]. simpl.
  rewrite Zplus_mod, IH, <- Zmult_mod, <- Zplus_mod. reflexivity.
Qed.

(** Two places determine an integer: an approximation f that is off by less than 2^63, and the
    residue w modulo 2^64.

    Speaks of: gemm.forward 05c9f276a7bf19bb9bbd04d4474224aef1dc64968901a71a1e04d0288be08603, gemm.grad_a
    1556e032c5e98a0acb5516db49e5c95bf5e533a5f57b679af15eb35ae73e1878, gemm.grad_b
    8e3c3c459c304e5da3a3e5661ab12d0fed8b2d2b66f1307f2b1eb3d3dd3f47c6, gemm.batched.forward
    ec1da9ba2e12c4ae8c1e3339125f6b3a637ae7f77c0dcb9c1b8ade930795bf1a, gemm.batched.grad_a
    a0901bc3c83091922c342769645759d748143d3366247c9b6909e1a3cd41c79d, gemm.batched.grad_b
    396737f62058b9aaaf2fa19329471057b2990af57cb37ae686b46782358b40f1

    Rests on it: num/exact.twoAdic. *)
Theorem two_places : forall exact f w : Z,
  Z.abs (exact - f) < 2 ^ 63 ->
  w mod 2 ^ 64 = exact mod 2 ^ 64 ->
  exact = f + signed 64 (w - f).
Proof.
  intros exact f w near same.
  rewrite (signed_unique 64 (exact - f)); try lia.
  rewrite Zminus_mod, <- same, <- Zminus_mod. reflexivity.
Qed.

(** The same for a dot product whose residue is computed by wrapping arithmetic, and for a result
    that is put together in 128 bits: whatever overflows on the way, the result is the exact sum.

    Speaks of: gemm.forward 05c9f276a7bf19bb9bbd04d4474224aef1dc64968901a71a1e04d0288be08603, gemm.grad_a
    1556e032c5e98a0acb5516db49e5c95bf5e533a5f57b679af15eb35ae73e1878, gemm.grad_b
    8e3c3c459c304e5da3a3e5661ab12d0fed8b2d2b66f1307f2b1eb3d3dd3f47c6, gemm.batched.forward
    ec1da9ba2e12c4ae8c1e3339125f6b3a637ae7f77c0dcb9c1b8ade930795bf1a, gemm.batched.grad_a
    a0901bc3c83091922c342769645759d748143d3366247c9b6909e1a3cd41c79d, gemm.batched.grad_b
    396737f62058b9aaaf2fa19329471057b2990af57cb37ae686b46782358b40f1

    Rests on it: num/exact.twoAdic; num/exact.residueSum; num/exact.words2. *)
Theorem two_adic_dot : forall (pairs : list (Z * Z)) (init f : Z),
  Z.abs (dot pairs + init - f) < 2 ^ 63 ->
  Z.abs (dot pairs + init) < 2 ^ 127 ->
  signed 128 (f + signed 64 (wrapping_dot 64 pairs + init - f)) = dot pairs + init.
Proof.
  intros pairs init f near small.
  rewrite <- (two_places (dot pairs + init) f (wrapping_dot 64 pairs + init) near).
  - apply signed_unique; lia.
  - rewrite Zplus_mod, (wrapping_dot_residue 64) by lia. now rewrite <- Zplus_mod.
Qed.

Lemma sum_bound : forall bound terms, 0 <= bound ->
  (forall x, In x terms -> Z.abs x <= bound) ->
  Z.abs (sum terms) <= Z.of_nat (length terms) * bound.
Proof.
  intros bound terms pos. induction terms as [|x terms IH]; intros each; [simpl; lia|].
  assert (H : Z.abs x <= bound) by (apply each; now left).
  specialize (IH (fun y H => each y (or_intror H))).
  simpl sum. simpl length. rewrite Nat2Z.inj_succ. lia.
Qed.

(** A sum in words that wrap is exact, in any order of the terms, if the words have room for as many
    terms as there are, each as large as it can be. Nothing needs to be known of partial sums.

    Speaks of: embedding.backward a4f29218009f7fb4779be5cfc666dbca23e17a038f9a248516d4147bba8e3cb7

    Rests on it: num/exact.SumF16; lower/cpu/table.units. *)
Theorem wrapping_sum_exact : forall (n bound : Z) (terms given : list Z),
  0 < n -> 0 <= bound ->
  (forall x, In x terms -> Z.abs x <= bound) ->
  Z.of_nat (length terms) * bound < 2 ^ (n - 1) ->
  Permutation given terms ->
  signed n (wrapping_sum n given) = sum terms.
Proof.
  intros n bound terms given pos nonneg each room same.
  assert (H : Z.abs (sum terms) <= Z.of_nat (length terms) * bound) by now apply sum_bound.
  apply signed_unique; [exact pos | | lia].
  rewrite wrapping_sum_residue by exact pos. f_equal. clear - same.
  induction same; simpl; lia.
Qed.

(** A finite f16 value, from the fields of its pattern, in units of 2^−24. *)
Record f16 := { negative : bool; exponent : Z; fraction : Z }.

Definition is_finite (x : f16) : Prop := 0 <= exponent x <= 30 /\ 0 <= fraction x < 2 ^ 10.

Definition units (x : f16) : Z :=
  let normal := Z.min (exponent x) 1 in
  let magnitude := (fraction x + normal * 2 ^ 10) * 2 ^ (exponent x - normal) in
  if negative x then - magnitude else magnitude.

Lemma units_bound : forall x, is_finite x -> Z.abs (units x) <= (2 ^ 11 - 1) * 2 ^ 29.
Proof.
  intros [s e m] [[le ue] [lm um]]. unfold units. simpl in *.
  assert (H : 0 <= (m + Z.min e 1 * 1024) * 2 ^ (e - Z.min e 1) <= (2 ^ 11 - 1) * 2 ^ 29).
  { assert (P : 0 < 2 ^ (e - Z.min e 1) <= 2 ^ 29).
    { split; [apply Z.pow_pos_nonneg; lia | apply Z.pow_le_mono_r; lia]. }
    split; [nia|]. apply Z.mul_le_mono_nonneg; lia. }
  destruct s; lia.
Qed.

(** Sums of f16 values in one word of 64 bits are exact, in any order, up to 2^23 terms.

    Speaks of: embedding.backward a4f29218009f7fb4779be5cfc666dbca23e17a038f9a248516d4147bba8e3cb7

    Rests on it: lower/gpu/kernels/scatter.cu, whose chunks are such sums; num/exact.SumF16.Add. *)
Theorem f16_sum_in_a_word : forall terms given : list f16,
  (forall x, In x terms -> is_finite x) ->
  Z.of_nat (length terms) <= 2 ^ 23 ->
  Permutation given terms ->
  signed 64 (wrapping_sum 64 (map units given)) = sum (map units terms).
Proof.
  intros terms given finite few same.
  apply wrapping_sum_exact with (bound := (2 ^ 11 - 1) * 2 ^ 29); try lia.
  - intros x H. apply in_map_iff in H. destruct H as (y & <- & H). apply units_bound. now apply finite.
  - rewrite map_length. change ((2 ^ 11 - 1) * 2 ^ 29) with 1098974756864. change (2 ^ (64 - 1)) with 9223372036854775808.
    change (2 ^ 23) with 8388608 in *. nia.
  - now apply Permutation_map.
Qed.
