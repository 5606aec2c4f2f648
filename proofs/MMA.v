(** * Steps of a tensor core

    One step of the model mma(L,F) in integers, as num.MMA.Step computes it: exact products, aligned
    with the accumulator at the largest exponent, truncated toward zero to F fractional bits, added
    exactly, and truncated toward zero to R fractional bits, 23 for binary32. NaN and infinity are
    left out here, since they are decided before anything is added, and so is overflow.

    Speaks of: gemm.forward 05c9f276a7bf19bb9bbd04d4474224aef1dc64968901a71a1e04d0288be08603, gemm.grad_a
    1556e032c5e98a0acb5516db49e5c95bf5e533a5f57b679af15eb35ae73e1878, gemm.grad_b
    8e3c3c459c304e5da3a3e5661ab12d0fed8b2d2b66f1307f2b1eb3d3dd3f47c6, gemm.batched.forward
    ec1da9ba2e12c4ae8c1e3339125f6b3a637ae7f77c0dcb9c1b8ade930795bf1a, gemm.batched.grad_a
    a0901bc3c83091922c342769645759d748143d3366247c9b6909e1a3cd41c79d, gemm.batched.grad_b
    396737f62058b9aaaf2fa19329471057b2990af57cb37ae686b46782358b40f1, gemm.fp8.forward
    0089b6f12eb18f1b95865992cb8da2118eef87879b0685e3b64606c4cb82ee5c *)

From Coq Require Import List ZArith Lia.
Import ListNotations.
Open Scope Z_scope.

(** A term is significand · 2^exponent. The binary point of an accumulator's significand stands 23
    bits from the right, that of a product [point] bits. *)
Record term := { significand : Z; exponent : Z }.

Definition least_alignment := -133.
Definition least_exponent := -126.

(** s · 2^shift, truncated toward zero. *)
Definition align (s shift : Z) : Z :=
  if 0 <=? shift then s * 2 ^ shift else Z.quot s (2 ^ - shift).

(** The number of bits of an integer. *)
Definition bits (s : Z) : Z := if s =? 0 then 0 else Z.log2 (Z.abs s) + 1.

(** Zeros take no part in the largest exponent. *)
Definition larger (e : Z) (t : term) : Z :=
  if significand t =? 0 then e else Z.max e (exponent t).

Definition unit (F : Z) (acc : term) (products : list term) : Z :=
  fold_left larger products (larger least_alignment acc) - F.

Definition aligned_sum (F point : Z) (acc : term) (products : list term) : Z :=
  let u := unit F acc products in
  fold_left (fun sum p => sum + align (significand p) (exponent p - point - u)) products
    (align (significand acc) (exponent acc - 23 - u)).

(** sum · 2^unit with R fractional bits: an integer, and the exponent of its last bit. Zero is +0,
    which this form writes as 0 · 2^0. *)
Definition truncate (R sum u : Z) : Z * Z :=
  if sum =? 0 then (0, 0)
  else
    let last := Z.max (u + bits sum - 1) least_exponent - R in
    (align sum (u - last), last).

Definition step (F R point : Z) (acc : term) (products : list term) : Z * Z :=
  truncate R (aligned_sum F point acc products) (unit F acc products).

(** A finite binary32 number that is not zero: its leading bit is set, or its exponent is the least. *)
Definition is_binary32 (acc : term) : Prop :=
  least_exponent <= exponent acc /\
  (2 ^ 23 <= Z.abs (significand acc) < 2 ^ 24 \/
   0 < Z.abs (significand acc) < 2 ^ 23 /\ exponent acc = least_exponent).

Definition all_zero (products : list term) : Prop :=
  forall p, In p products -> significand p = 0.

Definition is_nonzero (p : term) : bool := negb (significand p =? 0).

Lemma align_zero : forall shift, align 0 shift = 0.
Proof.
  intros shift. unfold align. destruct (Z.leb_spec 0 shift); [reflexivity|].
  apply Z.quot_0_l, Z.pow_nonzero; lia.
Qed.

Lemma unit_nonzero : forall F acc products,
  unit F acc (filter is_nonzero products) = unit F acc products.
Proof.
  intros F acc products. unfold unit. f_equal. generalize (larger least_alignment acc).
  induction products as [|p products IH]; intros e; [reflexivity|].
  simpl. unfold is_nonzero at 1. unfold larger at 3.
  destruct (significand p =? 0) eqn:E; simpl; [apply IH|].
  unfold larger at 2. rewrite E. apply IH.
Qed.

(** Zero products change nothing in a step, wherever they stand: a last short step may be filled
    with them.

    Rests on it: num.MMA.Dot, whose last step may be short; lower/cpu/mma.worker.chain, which pads
    with zeros. *)
Theorem mma_short_step : forall (F R point : Z) (acc : term) (products : list term),
  step F R point acc (filter is_nonzero products) = step F R point acc products.
Proof.
  intros F R point acc products. unfold step, aligned_sum. rewrite unit_nonzero.
  generalize (unit F acc products) as u. intros u. f_equal.
  generalize (align (significand acc) (exponent acc - 23 - u)).
  induction products as [|p products IH]; intros sum; [reflexivity|].
  simpl. unfold is_nonzero at 1. destruct (Z.eqb_spec (significand p) 0) as [E|]; simpl; rewrite IH; [|reflexivity].
  now rewrite E, align_zero, Z.add_0_r.
Qed.

Lemma no_nonzero : forall products, all_zero products -> filter is_nonzero products = [].
Proof.
  induction products as [|p products IH]; intros zero; [reflexivity|].
  simpl. unfold is_nonzero. rewrite (zero p) by now left. simpl.
  apply IH. intros q H. apply zero. now right.
Qed.

Lemma align_back : forall q n, 0 <= n -> align (q * 2 ^ n) (- n) = q.
Proof.
  intros q n pos. unfold align. destruct (Z.leb_spec 0 (- n)).
  - replace n with 0 by lia. simpl. lia.
  - rewrite Z.opp_involutive. apply Z.quot_mul, Z.pow_nonzero; lia.
Qed.

Lemma bits_shift : forall q n, q <> 0 -> 0 <= n -> bits (q * 2 ^ n) = bits q + n.
Proof.
  intros q n nonzero pos. unfold bits.
  assert (0 < 2 ^ n) by (apply Z.pow_pos_nonneg; lia).
  destruct (Z.eqb_spec (q * 2 ^ n) 0); [nia|]. destruct (Z.eqb_spec q 0); [lia|].
  rewrite Z.abs_mul, (Z.abs_eq (2 ^ n)) by lia. rewrite Z.log2_mul_pow2; lia.
Qed.

(** A step of zero products leaves an accumulator as it is, if it is finite, not zero, and has no
    more than R fractional bits, with R <= F. The result is its significand without the bits that
    are zero, at R fractional bits: the same number. The steps of mma(32,13,13) are such.

    Rests on it: num.MMA.Step; lower/cpu/mma.worker.chain. *)
Theorem mma_zero_products_narrow : forall (F R point q : Z) (acc : term) (products : list term),
  0 <= R <= 23 -> R <= F ->
  is_binary32 acc -> significand acc = q * 2 ^ (23 - R) ->
  all_zero products ->
  step F R point acc products = (q, exponent acc - R).
Proof.
  intros F R point q acc products narrow wide [least form] fraction zero.
  rewrite <- mma_short_step, (no_nonzero _ zero). unfold step, aligned_sum, unit. simpl fold_left.
  assert (two : 0 < 2 ^ (23 - R)) by (apply Z.pow_pos_nonneg; lia).
  assert (nonzero : q <> 0) by (intros ->; simpl in fraction; rewrite fraction in form; simpl in form; lia).
  unfold larger, least_alignment, least_exponent in *.
  destruct (Z.eqb_spec (significand acc) 0) as [E|_]; [nia|].
  rewrite Z.max_r by lia.
  replace (exponent acc - 23 - (exponent acc - F)) with (F - 23) by lia.
  assert (sum : align (significand acc) (F - 23) = q * 2 ^ (F - R)).
  { rewrite fraction. unfold align. destruct (Z.leb_spec 0 (F - 23)).
    - rewrite <- Z.mul_assoc, <- Z.pow_add_r by lia. do 2 f_equal. lia.
    - replace (23 - R) with ((F - R) + (- (F - 23))) by lia.
      rewrite Z.pow_add_r, Z.mul_assoc by lia. apply Z.quot_mul, Z.pow_nonzero; lia. }
  rewrite sum. unfold truncate.
  assert (0 < 2 ^ (F - R)) by (apply Z.pow_pos_nonneg; lia).
  destruct (Z.eqb_spec (q * 2 ^ (F - R)) 0); [nia|].
  rewrite bits_shift by lia. unfold least_exponent.
  assert (abs : Z.abs (significand acc) = Z.abs q * 2 ^ (23 - R)) by (rewrite fraction, Z.abs_mul; lia).
  assert (last : Z.max (exponent acc - F + (bits q + (F - R)) - 1) (-126) = exponent acc).
  { unfold bits. destruct (Z.eqb_spec q 0); [lia|].
    assert (P : 2 ^ R * 2 ^ (23 - R) = 2 ^ 23) by (rewrite <- Z.pow_add_r by lia; f_equal; lia).
    destruct form as [[low high]|[[low high] ->]].
    - assert (Z.log2 (Z.abs q) = R) as ->; [|lia].
      apply Z.log2_unique; [lia|]. rewrite Z.pow_succ_r by lia.
      change (2 ^ 24) with (2 * 2 ^ 23) in high. rewrite abs, <- P in low, high. split; nia.
    - assert (Z.log2 (Z.abs q) < R); [|lia].
      apply Z.log2_lt_pow2; [lia|]. rewrite abs, <- P in high. nia. }
  rewrite last. f_equal.
  replace (exponent acc - F - (exponent acc - R)) with (- (F - R)) by lia.
  apply align_back. lia.
Qed.

(** Steps of zero products after the end of a sum leave an accumulator of binary32 unchanged, if it
    is finite and not zero and F >= 23. The signs of the zeros do not matter.

    Rests on it: num.MMA.Step; lower/cpu/mma.worker.chain, which may pad a sum to whole steps;
    def.MMA. *)
Theorem mma_zero_products : forall (F point : Z) (acc : term) (products : list term),
  23 <= F ->
  is_binary32 acc -> all_zero products ->
  step F 23 point acc products = (significand acc, exponent acc - 23).
Proof.
  intros F point acc products wide finite zero.
  apply mma_zero_products_narrow; try lia; try assumption.
Qed.

(** The exception is zero. A term knows no sign of zero: the accumulators +0 and −0 are the same to
    a step, and zero products give +0. So a step of zero products turns −0 into +0.

    Rests on it: num.MMA.Step, whose zeros are +0 whatever the signs. *)
Theorem mma_zero_is_positive : forall (F R point : Z) (acc : term) (products : list term),
  significand acc = 0 -> all_zero products ->
  step F R point acc products = (0, 0).
Proof.
  intros F R point acc products nothing zero.
  rewrite <- mma_short_step, (no_nonzero _ zero). unfold step, aligned_sum. simpl fold_left.
  now rewrite nothing, align_zero.
Qed.
