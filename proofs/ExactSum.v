(** * Sums in binary64 with a bound of their error

    A dot product in binary64, in any order of additions, the bound of its error that is computed
    beside it, and the exact sum that these and a sum modulo 2^64 determine. Products of two
    binary32 numbers are binary64 numbers, so the terms are exact. Overflow is left out:
    num/exact.Float64 has no bound where it happens.

    Speaks of: gemm.forward 05c9f276a7bf19bb9bbd04d4474224aef1dc64968901a71a1e04d0288be08603, gemm.grad_a
    1556e032c5e98a0acb5516db49e5c95bf5e533a5f57b679af15eb35ae73e1878, gemm.grad_b
    8e3c3c459c304e5da3a3e5661ab12d0fed8b2d2b66f1307f2b1eb3d3dd3f47c6, gemm.batched.forward
    ec1da9ba2e12c4ae8c1e3339125f6b3a637ae7f77c0dcb9c1b8ade930795bf1a, gemm.batched.grad_a
    a0901bc3c83091922c342769645759d748143d3366247c9b6909e1a3cd41c79d, gemm.batched.grad_b
    396737f62058b9aaaf2fa19329471057b2990af57cb37ae686b46782358b40f1 *)

From Coq Require Import ZArith Reals Psatz.
From Flocq Require Import Core.
From Tokitai Require Import Exact Sum Binary32.
Open Scope R_scope.

Notation binary64 := (in_format (-1074) 53).
Notation round64 := (nearest (-1074) 53).
Notation sum64 := (computed (fun x y => round64 (x + y))).
Notation u64 := (bpow radix2 (-53)).

(** The same order of additions, of the terms' magnitudes. *)
Fixpoint magnitudes (t : order) : order :=
  match t with Leaf x => Leaf (Rabs x) | Node l r => Node (magnitudes l) (magnitudes r) end.

(** The bound that is computed from the number of products and the sum of magnitudes, with every
    rounding. *)
Definition error_bound (K : Z) (sum : R) : R :=
  let abs := round64 (sum * (1 + (IZR K + 4) * bpow radix2 (-52))) in
  round64 (round64 (abs * IZR K) * (u64 * (1 + bpow radix2 (-50)))).

Lemma magnitudes_exact t : exact (magnitudes t) = magnitude t.
Proof. induction t; simpl; [reflexivity | congruence]. Qed.

Lemma magnitudes_magnitude t : magnitude (magnitudes t) = magnitude t.
Proof. induction t; simpl; [apply Rabs_Rabsolu | congruence]. Qed.

Lemma magnitudes_terms t : terms (magnitudes t) = terms t.
Proof. induction t; simpl; congruence. Qed.

Lemma magnitudes_float t : every binary64 t -> every binary64 (magnitudes t).
Proof. induction t; simpl; [apply generic_format_abs | intuition]. Qed.

Lemma round64_nonneg x : 0 <= x -> 0 <= round64 x.
Proof.
  intros H. rewrite <- (round_0 radix2 (FLT_exp (-1074) 53) ZnearestE). apply round_le; auto; typeclasses eauto.
Qed.

Lemma round64_below x : bpow radix2 (-1022) <= x -> x * (1 - u64) <= round64 x.
Proof.
  intros H. assert (P := bpow_gt_0 radix2 (-1022)). generalize (nearest_error (-1074) 53 x).
  rewrite (Rabs_pos_eq x) by lra. rewrite Rmax_left.
  - intros E. apply Rabs_le_inv in E. change (- (53))%Z with (-53)%Z in E. lra.
  - change (-1074 - 1)%Z with (-53 + -1022)%Z. rewrite bpow_plus. apply Rmult_le_compat_l; [apply bpow_ge_0 | exact H].
Qed.

Lemma u64_value : u64 = / 9007199254740992. Proof. reflexivity. Qed.

Lemma tiny : forall n x, (0 <= n <= 700)%Z -> bpow radix2 (-298) <= x * bpow radix2 n -> bpow radix2 (-1022) <= x.
Proof.
  intros n x le H. apply Rmult_le_reg_r with (bpow radix2 n); [apply bpow_gt_0|].
  apply Rle_trans with (2 := H). rewrite <- bpow_plus. apply bpow_le. lia.
Qed.

(** What the factors above the sum are for: they outweigh the roundings of the bound itself. *)
Lemma factors : forall k, 0 <= k <= 4294967296 ->
  1 <= (1 - k * u64) * (1 + (k + 4) * bpow radix2 (-52)) * (1 - u64) * (1 - u64) * (1 - u64) * (1 + bpow radix2 (-50)).
Proof.
  intros k H. replace (bpow radix2 (-52)) with (2 * u64) by (simpl; lra).
  replace (bpow radix2 (-50)) with (8 * u64) by (simpl; lra).
  rewrite u64_value. set (v := / 9007199254740992).
  assert (V : 0 < v < / 1000000000000000) by (unfold v; split; lra).
  assert (X : 0 <= k * v <= / 1000000) by (unfold v; split; lra).
  assert (A : 1 <= (1 - k * v) * (1 + (k + 4) * (2 * v))) by nra.
  assert (B : 1 <= (1 - v) * (1 - v) * (1 - v) * (1 + 8 * v)) by nra.
  replace ((1 - k * v) * (1 + (k + 4) * (2 * v)) * (1 - v) * (1 - v) * (1 - v) * (1 + 8 * v))
    with (((1 - k * v) * (1 + (k + 4) * (2 * v))) * ((1 - v) * (1 - v) * (1 - v) * (1 + 8 * v))) by ring.
  nra.
Qed.

Lemma bound_is_enough : forall k A sum,
  0 <= k <= 4294967296 -> (k = 0 \/ 1 <= k) -> A = 0 \/ bpow radix2 (-298) <= A ->
  0 <= sum -> A * (1 - k * u64) <= sum ->
  k * u64 * A <= round64 (round64 (round64 (sum * (1 + (k + 4) * bpow radix2 (-52))) * k) * (u64 * (1 + bpow radix2 (-50)))).
Proof.
  intros k A sum Hk whole HA pos low.
  assert (U : 0 < u64 < / 1000000000000000) by (rewrite u64_value; split; lra).
  assert (U' : bpow radix2 (-52) = 2 * u64) by (simpl; lra).
  assert (U8 : bpow radix2 (-50) = 8 * u64) by (simpl; lra).
  assert (C : 1 <= 1 + (k + 4) * bpow radix2 (-52)) by nra.
  assert (N : forall x, 0 <= x -> 0 <= round64 x) by apply round64_nonneg.
  destruct HA as [->|HA].
  { rewrite Rmult_0_r. apply N, Rmult_le_pos; [|nra]. apply N, Rmult_le_pos; [|lra]. apply N, Rmult_le_pos; lra. }
  destruct whole as [->|Hk1].
  { rewrite !Rmult_0_l. apply N, Rmult_le_pos; [|nra]. apply N. lra. }
  assert (A0 : 0 < A) by (apply Rlt_le_trans with (2 := HA), bpow_gt_0).
  assert (Ku : 0 <= k * u64 <= / 1000000) by (rewrite u64_value; split; lra).
  assert (S : A <= sum * 2) by nra.
  set (c := 1 + (k + 4) * bpow radix2 (-52)) in *.
  set (a := round64 (sum * c)). set (r := round64 (a * k)).
  assert (half : forall x, 0 <= x -> x <= x * (1 - u64) * 2) by (intros; nra).
  assert (S1 : sum <= sum * c) by nra.
  assert (B1 : sum * c * (1 - u64) <= a).
  { apply round64_below, (tiny 1); [lia|]. change (bpow radix2 1) with 2. lra. }
  assert (A1 : A <= a * 4) by (specialize (half (sum * c)); lra).
  assert (a1 : a <= a * k) by nra.
  assert (B2 : a * k * (1 - u64) <= r).
  { apply round64_below, (tiny 2); [lia|]. change (bpow radix2 2) with 4. lra. }
  assert (A2 : A <= r * 8) by (specialize (half (a * k)); lra).
  assert (r0 : 0 < r) by lra.
  assert (B3 : r * (u64 * (1 + bpow radix2 (-50))) * (1 - u64) <= round64 (r * (u64 * (1 + bpow radix2 (-50))))).
  { apply round64_below, (tiny 56); [lia|]. apply Rle_trans with (1 := HA). apply Rle_trans with (1 := A2).
    replace (bpow radix2 56) with (8 * / u64) by (rewrite u64_value; simpl; lra).
    replace (r * (u64 * (1 + bpow radix2 (-50))) * (8 * / u64))
      with (r * 8 * (1 + bpow radix2 (-50))) by (field; lra).
    nra. }
  apply Rle_trans with (2 := B3).
  assert (F := factors k Hk). fold c in F.
  set (w := 1 - u64) in *. set (g := 1 + bpow radix2 (-50)) in *.
  assert (W : 0 < w) by (unfold w; lra). assert (G : 0 < g) by (unfold g; lra).
  apply Rle_trans with (A * (1 - k * u64) * c * w * k * w * (u64 * g) * w).
  - replace (A * (1 - k * u64) * c * w * k * w * (u64 * g) * w)
      with ((k * u64 * A) * ((1 - k * u64) * c * w * w * w * g)) by ring.
    assert (0 <= k * u64 * A) by (apply Rmult_le_pos; lra). nra.
  - apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_r; [apply Rlt_le, Rmult_lt_0_compat; lra|].
    apply Rle_trans with (2 := B2). apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_r; [lra|].
    apply Rle_trans with (2 := B1). apply Rmult_le_compat_r; [lra|]. apply Rmult_le_compat_r; lra.
Qed.

(** The bound that is computed, in binary64 and rounded at every step, bounds the error of the sum:
    for K products and one more term, K < 2^32, of which no product is so small that it is below
    2^−298, the least product of two binary32 numbers.

    Rests on it: num/exact.Float64; num/exact.Product. *)
Theorem float64_error : forall (t : order) (K : Z),
  (0 <= K < 2 ^ 32)%Z -> Z.of_nat (terms t) = (K + 1)%Z ->
  every binary64 t ->
  (magnitude t = 0 \/ bpow radix2 (-298) <= magnitude t) ->
  Rabs (sum64 t - exact t) <= error_bound K (sum64 (magnitudes t)).
Proof.
  intros t K HK count floats size.
  assert (k : INR (terms t) - 1 = IZR K).
  { rewrite INR_IZR_INZ, count, plus_IZR. simpl. ring. }
  eapply Rle_trans; [apply (sum_error_in_any_order _ _ _ t binary64_addition floats)|].
  rewrite k. unfold error_bound.
  assert (E := sum_error_in_any_order _ _ _ (magnitudes t) binary64_addition (magnitudes_float t floats)).
  rewrite magnitudes_terms, magnitudes_magnitude, magnitudes_exact, k in E.
  assert (R : 0 <= IZR K <= 4294967296) by (split; apply IZR_le; lia).
  assert (M := magnitude_nonneg t).
  assert (Ku : IZR K * u64 <= / 1000000) by (rewrite u64_value; lra).
  apply Rabs_le_inv in E.
  apply bound_is_enough; try assumption.
  - destruct (Z.eq_dec K 0) as [->|]; [now left | right; apply (IZR_le 1); lia].
  - nra.
  - lra.
Qed.

(** Every partial sum of integers, in units of 2^unit, is an integer in these units. *)
Definition is_integer (unit : Z) (x : R) : Prop := exists m, x = F2R (Float radix2 m unit).

Lemma rounded_integer : forall unit x, (-1074 <= unit)%Z -> is_integer unit x -> is_integer unit (round64 x).
Proof.
  intros unit x le [m E].
  set (e := cexp radix2 (FLT_exp (-1074) 53) x).
  destruct (Z.le_gt_cases unit e) as [big|small].
  - exists (ZnearestE (scaled_mantissa radix2 (FLT_exp (-1074) 53) x) * 2 ^ (e - unit))%Z.
    unfold nearest, round. fold e. unfold F2R; simpl Fnum; simpl Fexp.
    rewrite mult_IZR, (IZR_Zpower radix2) by lia. rewrite Rmult_assoc, <- bpow_plus. do 2 f_equal. lia.
  - exists m. rewrite <- E. apply round_generic; [typeclasses eauto|].
    rewrite E. apply generic_format_F2R. intros _. rewrite <- E. fold e. lia.
Qed.

Lemma plus_integer : forall unit x y, is_integer unit x -> is_integer unit y -> is_integer unit (x + y).
Proof.
  intros unit x y [m ->] [n ->]. exists (m + n)%Z. unfold F2R; simpl. rewrite plus_IZR. ring.
Qed.

Lemma computed_integer : forall unit t, (-1074 <= unit)%Z ->
  every (is_integer unit) t -> is_integer unit (sum64 t).
Proof.
  intros unit t le. induction t as [x|l IHl r IHr]; intros H; simpl; [exact H|].
  destruct H as [Hl Hr]. apply rounded_integer; [exact le|]. apply plus_integer; auto.
Qed.

(** The exact sum. The terms are integers in units of 2^unit, and [total] is their exact sum. They
    are added in binary64, in any order, and modulo 2^64, which gives [w]. If a bound of the
    binary64 sum's error is below 2^63 units, then that sum is an integer f in these units, and f
    and w determine the exact sum.

    Rests on it: num/exact.twoAdic; num/exact.Round. *)
Theorem exact_sum : forall (t : order) (unit total w : Z) (error : R),
  (-1074 <= unit)%Z ->
  every (is_integer unit) t ->
  exact t = IZR total * bpow radix2 unit ->
  Rabs (sum64 t - exact t) <= error ->
  error < bpow radix2 (unit + 63) ->
  (w mod 2 ^ 64 = total mod 2 ^ 64)%Z ->
  exists f : Z, sum64 t = IZR f * bpow radix2 unit /\
    (total = f + signed 64 (w - f))%Z.
Proof.
  intros t unit total w error le Hi Ht Herr Hlt Hw.
  destruct (computed_integer unit t le Hi) as [f E]. unfold F2R in E; simpl in E.
  exists f. split; [exact E|]. apply two_places; [|exact Hw].
  apply lt_IZR. rewrite abs_IZR, minus_IZR.
  apply Rmult_lt_reg_r with (bpow radix2 unit); [apply bpow_gt_0|].
  change (IZR (2 ^ 63)) with (bpow radix2 63). rewrite <- bpow_plus, Z.add_comm.
  apply Rle_lt_trans with (2 := Hlt). apply Rle_trans with (2 := Herr). apply Req_le.
  rewrite E, Ht, <- (Rabs_pos_eq (bpow radix2 unit)) at 1 by apply bpow_ge_0.
  rewrite <- Rabs_mult, <- Rabs_Ropp. f_equal. ring.
Qed.
