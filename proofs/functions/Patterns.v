(** * The patterns of normal numbers, and the last rounding of a function

    Lemmas for functions that take the exponent from the pattern of their argument, and for
    the step from an error in ulps before the last rounding to the one after it. Nothing here
    knows a function's constants, but for the shape of the reciprocal's first guess. *)
From Coq Require Import Reals ZArith Lia Lra Psatz.
From Flocq Require Import Core Relative.
From Interval Require Import Tactic.
From Tokitai Require Import functions.Binary32.
Open Scope R_scope.

(** ** Units in the last place *)

(** A number has 24 bits, so its last place is at least 2^-24 of it. *)
Lemma ulp32_at_least (z : R) : Rabs z * / 16777216 <= ulp32 z.
Proof.
destruct (Req_dec z 0) as [-> | N].
- rewrite Rabs_R0, Rmult_0_l. generalize (ulp32_least 0) (bpow_gt_0 radix2 (-149)). lra.
- unfold ulp32. rewrite ulp_neq_0 by exact N. unfold cexp, FLT_exp.
  apply Rle_trans with (bpow radix2 (mag radix2 z - 24)).
  + unfold Zminus. rewrite bpow_plus. change (bpow radix2 (- (24))) with (/ 16777216).
    apply Rmult_le_compat_r. lra. left. apply bpow_mag_gt.
  + apply bpow_le. lia.
Qed.

(** The last place of what is at least 2^k. *)
Lemma ulp32_ge (k : Z) (z : R) : bpow radix2 k <= Rabs z -> bpow radix2 (k - 23) <= ulp32 z.
Proof.
intros H.
assert (N : z <> 0).
{ intros ->. rewrite Rabs_R0 in H. generalize (bpow_gt_0 radix2 k). lra. }
unfold ulp32. rewrite ulp_neq_0 by exact N. apply bpow_le. unfold cexp, FLT_exp.
assert (k + 1 <= mag radix2 z)%Z; [|lia].
apply mag_ge_bpow. now replace (k + 1 - 1)%Z with k by ring.
Qed.

(** The last rounding: what is within B ulp of T, is within B + 1/2 ulp after it. The last
    place is that of T, also where the rounding leaves T's binade. *)
Lemma rnd_ulps (T Y B : R) : T <> 0 -> 0 <= B <= / 2 -> Rabs (Y - T) <= B * ulp32 T -> Rabs (rnd Y - T) <= (/ 2 + B) * ulp32 T.
Proof.
intros NT HB H.
assert (U := ulp32_least T). assert (U0 := bpow_gt_0 radix2 (-149)).
replace (rnd Y - T) with ((rnd Y - Y) + (Y - T)) by ring.
apply Rle_trans with (1 := Rabs_triang _ _).
assert (L : Rabs (rnd Y - Y) <= / 2 * ulp32 T); [|lra].
set (j := Z.max (mag radix2 T) (-149)).
assert (Tj : Rabs T < bpow radix2 j).
{ apply Rlt_le_trans with (1 := bpow_mag_gt radix2 T). apply bpow_le. lia. }
destruct (Rlt_le_dec (Rabs Y) (bpow radix2 j)) as [S | S].
- apply Rle_trans with (1 := error_le_half_ulp radix2 _ (fun x => negb (Z.even x)) Y).
  apply Rmult_le_compat_l. lra.
  destruct (Req_dec Y 0) as [-> | N].
  { rewrite ulp_FLT_0 by reflexivity. exact U. }
  assert (M : (mag radix2 Y <= j)%Z) by (apply mag_le_bpow; [exact N | exact S]).
  unfold ulp32. rewrite !ulp_neq_0 by assumption. apply bpow_le. unfold cexp, FLT_exp. lia.
- assert (F : F32 (bpow radix2 j)) by (apply generic_format_bpow; unfold FLT_exp; lia).
  assert (D : Rabs (rnd Y - Y) <= Rabs Y - bpow radix2 j).
  { destruct (Rle_lt_dec 0 Y) as [P | P].
    - rewrite (Rabs_pos_eq Y) in S |- * by exact P.
      apply Rle_trans with (1 := rnd_near Y _ F). rewrite Rabs_minus_sym, Rabs_pos_eq; lra.
    - rewrite (Rabs_left Y) in S |- * by exact P.
      apply Rle_trans with (1 := rnd_near Y (- bpow radix2 j) (generic_format_opp _ _ _ F)). rewrite Rabs_pos_eq; lra. }
  generalize (Rabs_triang_inv Y T). intros. nra.
Qed.

(** The last rounding, after an error of more than half an ulp. Where Y leaves T's binade by less than an
    ulp of T, the power of two between them is nearest to Y. *)
Lemma rnd_one_ulp (T Y B : R) : T <> 0 -> 0 <= B < 1 -> Rabs (Y - T) <= B * ulp32 T -> Rabs (rnd Y - T) <= (/ 2 + B) * ulp32 T.
Proof.
intros NT HB H.
assert (U := ulp32_least T). assert (U0 := bpow_gt_0 radix2 (-149)).
set (j := Z.max (mag radix2 T) (-125)).
assert (Tj : Rabs T < bpow radix2 j).
{ apply Rlt_le_trans with (1 := bpow_mag_gt radix2 T). apply bpow_le. lia. }
assert (Uj : ulp32 T <= / 2 * bpow radix2 (j - 23)).
{ change (/ 2) with (bpow radix2 (-1)). rewrite <- bpow_plus. unfold ulp32. rewrite ulp_neq_0 by exact NT. apply bpow_le. unfold cexp, FLT_exp. lia. }
assert (E2 : bpow radix2 j = 8388608 * bpow radix2 (j - 23)).
{ replace j with (23 + (j - 23))%Z at 1 by ring. rewrite bpow_plus. reflexivity. }
destruct (Rlt_le_dec (Rabs Y) (bpow radix2 j)) as [S | S].
- destruct (Req_dec Y 0) as [-> | N].
  { rewrite round_0 by auto with typeclass_instances. lra. }
  replace (rnd Y - T) with ((rnd Y - Y) + (Y - T)) by ring.
  apply Rle_trans with (1 := Rabs_triang _ _).
  assert (Rabs (rnd Y - Y) <= / 2 * ulp32 T); [|lra].
  apply Rle_trans with (1 := error_le_half_ulp radix2 _ (fun x => negb (Z.even x)) Y).
  apply Rmult_le_compat_l. lra.
  assert (M : (mag radix2 Y <= j)%Z) by (apply mag_le_bpow; [exact N | exact S]).
  unfold ulp32. rewrite !ulp_neq_0 by assumption. apply bpow_le. unfold cexp, FLT_exp. lia.
- assert (S2 : Rabs Y - Rabs T <= B * ulp32 T) by (generalize (Rabs_triang_inv Y T); lra).
  assert (Q := bpow_gt_0 radix2 (j - 23)).
  assert (F : F32 (bpow radix2 j)) by (apply generic_format_bpow; unfold FLT_exp; lia).
  assert (E : forall y, bpow radix2 j <= y -> y < bpow radix2 j + ulp32 T -> rnd y = bpow radix2 j \/ Rabs (rnd y - y) <= / 2 * ulp32 T).
  { intros y L1 L2. assert (D := rnd_near y _ F). rewrite (Rabs_minus_sym (bpow _ _)), (Rabs_pos_eq (y - bpow _ _)) in D by lra.
    destruct (Rle_lt_dec (y - bpow radix2 j) (/ 2 * ulp32 T)) as [C | C]. right; lra.
    left. assert (G : F32 (rnd y)) by (apply generic_format_round; auto with typeclass_instances).
    assert (R1 : bpow radix2 j <= rnd y) by (apply round_ge_generic; auto with typeclass_instances).
    destruct (F32_multiple j (rnd y) G) as [m Em]. { rewrite Rabs_pos_eq; lra. }
    assert (m = 8388608%Z); [|subst m; lra].
    rewrite Em in R1, D. rewrite E2 in R1, D, L1, L2.
    apply Rabs_le_inv in D.
    assert (8388608 <= IZR m) by nra. assert (IZR m < 8388608 + 2) by nra.
    assert (8388608 <= m < 8388608 + 2)%Z by (split; [apply le_IZR | apply lt_IZR; rewrite plus_IZR]; lra).
    assert (m = 8388608 \/ m = 8388609)%Z as [-> | ->] by lia. reflexivity. exfalso.
    lra. }
  assert (K : forall y t, 0 <= t -> Rabs (y - t) <= B * ulp32 T -> t < bpow radix2 j -> bpow radix2 j <= y -> y < bpow radix2 j + ulp32 T ->
    Rabs (rnd y - t) <= (/ 2 + B) * ulp32 T).
  { intros y t P0 P1 P2 P3 P4. destruct (E y P3 P4) as [-> | C].
    - rewrite Rabs_pos_eq by lra. apply Rabs_le_inv in P1. lra.
    - replace (rnd y - t) with ((rnd y - y) + (y - t)) by ring. apply Rle_trans with (1 := Rabs_triang _ _). lra. }
  assert (B * ulp32 T < ulp32 T) by nra.
  destruct (Rle_lt_dec 0 Y) as [P | P].
  + rewrite (Rabs_pos_eq Y) in S, S2 by exact P.
    destruct (Rle_lt_dec 0 T) as [P' | P'].
    * rewrite (Rabs_pos_eq T) in S2, Tj by exact P'. apply K; lra.
    * exfalso. rewrite Rabs_pos_eq in H by lra. lra.
  + rewrite (Rabs_left Y) in S, S2 by exact P.
    destruct (Rle_lt_dec 0 T) as [P' | P'].
    * exfalso. rewrite Rabs_left1 in H by lra. lra.
    * rewrite (Rabs_left T) in S2, Tj by exact P'.
      rewrite <- Rabs_Ropp. replace (- (rnd Y - T)) with (rnd (- Y) - (- T)) by (rewrite round_NE_opp; ring).
      apply K; try lra. replace (- Y - - T) with (- (Y - T)) by ring. now rewrite Rabs_Ropp.
Qed.

(** A relative error of e is one of e*2^24 ulp at most. *)
Lemma rnd_relative (T Y e : R) : T <> 0 -> 0 <= e <= / 33554432 -> Rabs (Y - T) <= e * Rabs T ->
  Rabs (rnd Y - T) <= (/ 2 + e * 16777216) * ulp32 T.
Proof.
intros NT He H. apply rnd_ulps. exact NT. lra.
apply Rle_trans with (1 := H). assert (U := ulp32_at_least T).
apply Rle_trans with (e * 16777216 * (Rabs T * / 16777216)). lra.
apply Rmult_le_compat_l; lra.
Qed.

(** Normal numbers round with a relative error of 2^-24. *)
Lemma rnd_normal (z : R) : bpow radix2 (-126) <= Rabs z -> exists d, rnd z = z * (1 + d) /\ Rabs d <= / 16777216.
Proof.
intros H. destruct (relative_error_N_FLT_ex radix2 (-149) 24 ltac:(lia) (fun x => negb (Z.even x)) z H) as [d [D E]].
exists d. split. exact E. apply Rle_trans with (1 := D). simpl. lra.
Qed.

(** Every number rounds with a relative error of 2^-24, or an error of 2^-150. *)
Lemma rnd_mixed (z : R) : exists e, rnd z = z + e /\ Rabs e <= Rabs z * / 16777216 + bpow radix2 (-150).
Proof.
exists (rnd z - z). split. ring.
destruct (Rle_lt_dec (bpow radix2 (-126)) (Rabs z)) as [H | H].
- destruct (rnd_normal z H) as [d [-> D]]. replace (z * (1 + d) - z) with (z * d) by ring. rewrite Rabs_mult.
  assert (Rabs z * Rabs d <= Rabs z * / 16777216) by (apply Rmult_le_compat_l; [apply Rabs_pos | exact D]).
  generalize (bpow_gt_0 radix2 (-150)). lra.
- assert (E := rnd_error (-125) z ltac:(lia)). change (-125 - 25)%Z with (-150)%Z in E.
  assert (Rabs (rnd z - z) <= bpow radix2 (-150)).
  { apply E. apply Rle_trans with (bpow radix2 (-126)). lra. apply bpow_le. lia. }
  assert (0 <= Rabs z * / 16777216) by (generalize (Rabs_pos z); lra). lra.
Qed.

(** No number but zero is below 2^-149. *)
Lemma F32_least (x : R) : F32 x -> x <> 0 -> bpow radix2 (-149) <= Rabs x.
Proof.
intros F N. destruct (Rle_lt_dec (bpow radix2 (-149)) (Rabs x)) as [L | L]. exact L. exfalso.
unfold F32, generic_format, F2R in F. simpl in F.
assert (C : cexp radix2 (FLT_exp (-149) 24) x = (-149)%Z).
{ unfold cexp, FLT_exp. assert (mag radix2 x <= -149)%Z by (apply mag_le_bpow; [exact N | exact L]). lia. }
rewrite C in F. assert (Q := bpow_gt_0 radix2 (-149)).
revert F. generalize (Ztrunc (scaled_mantissa radix2 (FLT_exp (-149) 24) x)). intros m F.
rewrite F, Rabs_mult, (Rabs_pos_eq (bpow _ _)), <- abs_IZR in L by lra.
assert (Z.abs m < 1)%Z by (apply lt_IZR; nra).
apply N. rewrite F. replace m with 0%Z by lia. ring.
Qed.

(** What has a small relative error, rounded, times a power of two, rounded again. *)
Lemma scaled_relative_positive (Y T e : R) (c : Z) : bpow radix2 (-100) <= T -> 0 <= e <= / 268435456 -> Rabs (Y - T) <= e * T ->
  (bpow radix2 (-126) <= T * bpow radix2 c -> Rabs (rnd (rnd Y * bpow radix2 c) - T * bpow radix2 c) <= (/ 2 + e * 16777216) * ulp32 (T * bpow radix2 c)) /\
  (T * bpow radix2 c < bpow radix2 (-126) -> Rabs (rnd (rnd Y * bpow radix2 c) - T * bpow radix2 c) <= (3 / 4 + e * 8388608) * ulp32 (T * bpow radix2 c)).
Proof.
intros HT He H. assert (P := bpow_gt_0 radix2 (-100)).
assert (N : T <> 0) by lra.
assert (Hj : bpow radix2 (mag radix2 T - 1) <= T < bpow radix2 (mag radix2 T)).
{ destruct (mag radix2 T) as [j Hj]. simpl. specialize (Hj N). now rewrite Rabs_pos_eq in Hj by lra. }
set (j := mag radix2 T : Z) in Hj.
assert (J : (-100 < j)%Z) by (apply (lt_bpow radix2); lra).
assert (L : bpow radix2 (j - 1) <= rnd Y).
{ destruct (Rle_lt_dec (bpow radix2 (j - 1)) Y) as [S | S].
  - apply round_ge_generic; auto with typeclass_instances. apply generic_format_bpow; unfold FLT_exp; lia.
  - rewrite (rnd_power (j - 1) Y); [apply Rle_refl | lia |].
    replace (j - 1 - 27)%Z with (-28 + j)%Z by ring. rewrite bpow_plus. change (bpow radix2 (-28)) with (/ 268435456).
    rewrite Rabs_left by lra. apply Rabs_le_inv in H. assert (e * T <= / 268435456 * bpow radix2 j) by (apply Rmult_le_compat; lra). lra. }
assert (U : ulp32 T = bpow radix2 (j - 24)).
{ rewrite (ulp32_power T j Hj). f_equal. lia. }
assert (D : Rabs (rnd Y * bpow radix2 0 - T) <= (/ 2 + e * 16777216) * bpow radix2 (j - 24)).
{ change (bpow radix2 0) with 1. rewrite Rmult_1_r, <- U. apply rnd_relative; [exact N | lra |]. now rewrite (Rabs_pos_eq T) by lra. }
destruct (scaled_error (rnd Y) T (/ 2 + e * 16777216) 0 j c) as [A B]; try assumption.
- apply generic_format_round; auto with typeclass_instances.
- lra.
- simpl (bpow radix2 0). lra.
- rewrite Z.add_0_r in A, B. split. exact A. intros S. replace (3 / 4 + e * 8388608) with (/ 2 + (/ 2 + e * 16777216) / 2) by field. now apply B.
Qed.

Lemma scaled_relative (Y T e : R) (c : Z) : bpow radix2 (-100) <= Rabs T -> 0 <= e <= / 268435456 -> Rabs (Y - T) <= e * Rabs T ->
  (bpow radix2 (-126) <= Rabs (T * bpow radix2 c) -> Rabs (rnd (rnd Y * bpow radix2 c) - T * bpow radix2 c) <= (/ 2 + e * 16777216) * ulp32 (T * bpow radix2 c)) /\
  (Rabs (T * bpow radix2 c) < bpow radix2 (-126) -> Rabs (rnd (rnd Y * bpow radix2 c) - T * bpow radix2 c) <= (3 / 4 + e * 8388608) * ulp32 (T * bpow radix2 c)).
Proof.
intros HT He H. assert (P := bpow_gt_0 radix2 (-100)). assert (Q := bpow_gt_0 radix2 c).
rewrite Rabs_mult, (Rabs_pos_eq (bpow _ c)) by lra.
destruct (Rle_lt_dec 0 T) as [S | S].
- rewrite (Rabs_pos_eq T S) in HT, H |- *. now apply scaled_relative_positive.
- rewrite (Rabs_left T S) in HT, H |- *.
  destruct (scaled_relative_positive (- Y) (- T) e c HT He) as [A B].
  { replace (- Y - - T) with (- (Y - T)) by ring. now rewrite Rabs_Ropp. }
  revert A B. rewrite round_NE_opp, <- !Ropp_mult_distr_l, round_NE_opp. unfold ulp32. rewrite ulp_opp.
  replace (- rnd (rnd Y * bpow radix2 c) - - (T * bpow radix2 c)) with (- (rnd (rnd Y * bpow radix2 c) - T * bpow radix2 c)) by ring.
  rewrite Rabs_Ropp, Ropp_mult_distr_l. split; assumption.
Qed.

(** ** Patterns *)

Lemma normal_form (x : R) : F32 x -> bpow radix2 (-126) <= x ->
  exists m e, x = IZR m * bpow radix2 e /\ (2 ^ 23 <= m < 2 ^ 24)%Z /\ (-149 <= e)%Z.
Proof.
intros F H. assert (P := bpow_gt_0 radix2 (-126)).
assert (N : x <> 0) by lra.
assert (Hj : bpow radix2 (mag radix2 x - 1) <= x < bpow radix2 (mag radix2 x)).
{ destruct (mag radix2 x) as [j Hj]. simpl. specialize (Hj N). now rewrite Rabs_pos_eq in Hj by lra. }
set (j := mag radix2 x : Z) in Hj.
assert (J : (-126 < j)%Z) by (apply (lt_bpow radix2); lra).
assert (C : cexp radix2 (FLT_exp (-149) 24) x = (j - 24)%Z).
{ unfold cexp, FLT_exp. fold j. lia. }
unfold F32, generic_format, F2R in F. simpl in F. rewrite C in F.
exists (Ztrunc (scaled_mantissa radix2 (FLT_exp (-149) 24) x)), (j - 24)%Z.
split. exact F. split; [|lia].
revert F. generalize (Ztrunc (scaled_mantissa radix2 (FLT_exp (-149) 24) x)). intros m F.
assert (Q := bpow_gt_0 radix2 (j - 24)). rewrite F in Hj.
replace (j - 1)%Z with (23 + (j - 24))%Z in Hj by ring. replace (bpow radix2 j) with (bpow radix2 (24 + (j - 24))) in Hj by (f_equal; ring).
rewrite !bpow_plus in Hj. split.
- apply le_IZR. apply Rmult_le_reg_r with (1 := Q). exact (proj1 Hj).
- apply lt_IZR. apply Rmult_lt_reg_r with (1 := Q). exact (proj2 Hj).
Qed.

Lemma bits_normal (m e : Z) : (2 ^ 23 <= m < 2 ^ 24)%Z -> (-149 <= e)%Z -> bits (IZR m * bpow radix2 e) = (m + (e + 149) * 2 ^ 23)%Z.
Proof.
intros Hm He. assert (Q := bpow_gt_0 radix2 e).
assert (P : 0 < IZR m) by (apply IZR_lt; lia).
unfold bits. destruct (Rle_dec 0 (IZR m * bpow radix2 e)) as [_ | N]; [|exfalso; apply N; nra].
unfold magnitude_bits.
assert (M : (mag radix2 (IZR m * bpow radix2 e) = 24 + e :> Z)%Z).
{ apply mag_unique. rewrite Rabs_pos_eq by nra.
  replace (24 + e - 1)%Z with (23 + e)%Z by ring. rewrite !bpow_plus. split.
  - apply Rmult_le_compat_r. lra. apply (IZR_le (2 ^ 23)). lia.
  - apply Rmult_lt_compat_r. lra. apply (IZR_lt _ (2 ^ 24)). lia. }
assert (C : cexp radix2 (FLT_exp (-149) 24) (IZR m * bpow radix2 e) = e) by (unfold cexp, FLT_exp; rewrite M; lia).
unfold scaled_mantissa. rewrite C, Rmult_assoc, <- bpow_plus. replace (e + - e)%Z with 0%Z by ring.
simpl (bpow radix2 0). rewrite Rmult_1_r, Ztrunc_IZR. reflexivity.
Qed.

Lemma float_normal (a f : Z) : (1 <= a)%Z -> (0 <= f < 2 ^ 23)%Z -> float (a * 2 ^ 23 + f) = IZR (f + 2 ^ 23) * bpow radix2 (a - 150).
Proof.
intros Ha Hf. unfold float. replace (a * 2 ^ 23 + f <? 0)%Z with false by (symmetry; apply Z.ltb_ge; lia).
unfold magnitude_float. rewrite Z.div_add_l, Z.div_small by lia.
rewrite (Z.add_comm (a * 2 ^ 23) f), Z.mod_add, Z.mod_small by lia.
replace (a + 0 =? 0)%Z with false by (symmetry; apply Z.eqb_neq; lia).
do 2 f_equal. lia.
Qed.

Lemma wrap_small (z : Z) : (- 2 ^ 31 <= z < 2 ^ 31)%Z -> wrap z = z.
Proof. intros H. unfold wrap. rewrite Z.mod_small; lia. Qed.

(** ** The reciprocal *)

(** The first guess: the pattern of x, taken from a constant. With x = m*2^k, 1 <= m < 2, the
    product of x and the guess depends on m alone. *)
Lemma guess (x : R) (C : Z) : F32 x -> bpow radix2 (-125) <= x <= bpow radix2 125 -> (0 <= C < 2 ^ 23)%Z ->
  let c := IZR C / 8388608 in
  let g := float (isub (253 * 2 ^ 23 + C) (bits x)) in
  exists m, 1 <= m <= 2 /\ (m <= 1 + c /\ x * g = m * (2 + c - m) / 2 \/ 1 + c <= m /\ x * g = m * (3 + c - m) / 4).
Proof.
intros F Hx HC c g.
destruct (normal_form x F) as [M [e [E [HM He]]]].
{ apply Rle_trans with (2 := proj1 Hx). apply bpow_le. lia. }
assert (Q := bpow_gt_0 radix2 e).
assert (B1 : 8388608 <= IZR M) by (apply (IZR_le (2 ^ 23)); lia).
assert (B2 : IZR M < 16777216) by (apply (IZR_lt _ (2 ^ 24)); lia).
assert (E1 : (-149 < e)%Z).
{ assert (-125 < 24 + e)%Z; [|lia]. apply (lt_bpow radix2). rewrite bpow_plus. change (bpow radix2 24) with 16777216. nra. }
assert (E2 : (e <= 102)%Z).
{ assert (23 + e <= 125)%Z; [|lia]. apply (le_bpow radix2). rewrite bpow_plus. change (bpow radix2 23) with 8388608. nra. }
assert (E3 : (2 ^ 23 < M)%Z -> (e <= 101)%Z).
{ intros H. apply IZR_lt in H. change (IZR (2 ^ 23)) with 8388608 in H.
  assert (23 + e < 125)%Z; [|lia]. apply (lt_bpow radix2). rewrite bpow_plus. change (bpow radix2 23) with 8388608. nra. }
exists (IZR M / 8388608). split. lra.
unfold g. rewrite E, bits_normal by assumption.
replace (253 * 2 ^ 23 + C)%Z with (253 * 2 ^ 23 + C)%Z by ring.
unfold isub. rewrite wrap_small by lia.
destruct (Z.le_gt_cases (M - 2 ^ 23) C) as [H | H].
- left. split. { unfold c. apply IZR_le in H. rewrite minus_IZR in H. change (IZR (2 ^ 23)) with 8388608 in H. lra. }
  replace (253 * 2 ^ 23 + C - (M + (e + 149) * 2 ^ 23))%Z with ((103 - e) * 2 ^ 23 + (C - (M - 2 ^ 23)))%Z by ring.
  rewrite float_normal by lia.
  replace (103 - e - 150)%Z with (-47 + - e)%Z by ring. rewrite bpow_plus, bpow_opp, plus_IZR, !minus_IZR.
  change (bpow radix2 (-47)) with (/ 140737488355328). change (IZR (2 ^ 23)) with 8388608. unfold c. field. lra.
- right. split. { unfold c. apply Z.lt_le_incl, IZR_le in H. rewrite minus_IZR in H. change (IZR (2 ^ 23)) with 8388608 in H. lra. }
  replace (253 * 2 ^ 23 + C - (M + (e + 149) * 2 ^ 23))%Z with ((102 - e) * 2 ^ 23 + (C - (M - 2 ^ 24)))%Z by ring.
  rewrite float_normal by lia.
  replace (102 - e - 150)%Z with (-48 + - e)%Z by ring. rewrite bpow_plus, bpow_opp, plus_IZR, !minus_IZR.
  change (bpow radix2 (-48)) with (/ 281474976710656). change (IZR (2 ^ 24)) with 16777216. change (IZR (2 ^ 23)) with 8388608. unfold c. field. lra.
Qed.

(** The guess is odd. *)
Lemma guess_odd (x : R) (C : Z) : F32 x -> bpow radix2 (-125) <= x <= bpow radix2 125 -> (0 <= C < 2 ^ 23)%Z ->
  float (isub (253 * 2 ^ 23 + C) (bits (- x))) = - float (isub (253 * 2 ^ 23 + C) (bits x)).
Proof.
intros F Hx HC.
destruct (normal_form x F) as [M [e [E [HM He]]]].
{ apply Rle_trans with (2 := proj1 Hx). apply bpow_le. lia. }
assert (Q := bpow_gt_0 radix2 e).
assert (B1 : 8388608 <= IZR M) by (apply (IZR_le (2 ^ 23)); lia).
assert (B2 : IZR M < 16777216) by (apply (IZR_lt _ (2 ^ 24)); lia).
assert (E2 : (e <= 102)%Z).
{ assert (23 + e <= 125)%Z; [|lia]. apply (le_bpow radix2). rewrite bpow_plus. change (bpow radix2 23) with 8388608. nra. }
assert (B := bits_normal M e HM He). rewrite <- E in B.
assert (P : 0 < x) by (rewrite E; nra).
assert (BN : bits (- x) = (bits x - 2 ^ 31)%Z).
{ unfold bits. destruct (Rle_dec 0 (- x)) as [N | _]; [lra|]. destruct (Rle_dec 0 x) as [_ | N]; [|lra].
  now rewrite Ropp_involutive. }
rewrite BN. unfold isub. rewrite (wrap_small (_ - bits x)) by lia.
set (z := (253 * 2 ^ 23 + C - bits x)%Z). assert (0 <= z < 2 ^ 31)%Z by (unfold z; lia).
replace (253 * 2 ^ 23 + C - (bits x - 2 ^ 31))%Z with (z + 2 ^ 31)%Z by (unfold z; ring).
replace (wrap (z + 2 ^ 31)) with (z - 2 ^ 31)%Z.
- unfold float. replace (z - 2 ^ 31 <? 0)%Z with true by (symmetry; apply Z.ltb_lt; lia).
  replace (z <? 0)%Z with false by (symmetry; apply Z.ltb_ge; lia). do 2 f_equal. ring.
- unfold wrap. Z.to_euclidean_division_equations. lia.
Qed.

(** From the guess to a number near the reciprocal, and a Newton step. near is the error of the
    cubic without roundings. *)
Lemma newton (x g s r near : R) :
  0.9 <= x * g <= 1.1 -> -1.6 <= s <= -1.4 -> 0.7 <= r <= 0.8 -> near <= 0.00004 ->
  Rabs (x * g * ((x * g + s) * (x * g + s) + r) - 1) <= near ->
  1.5 * bpow radix2 (-126) <= Rabs g ->
  let u := rnd (x * g + s) in
  let g1 := rnd (g * rnd (u * u + r)) in
  let gap := rnd (- x * g1 + 1) in
  Rabs gap <= / 8192 /\ Rabs (x * (g1 * gap + g1) - 1) <= (near + 0.00000018) * (near + 0.00000018) + 0.0000000000019.
Proof.
intros Hv Hs Hr Hnear HM Hg u g1 gap.
assert (exists v, v = x * g) as [v Ev] by now exists (x * g).
rewrite <- Ev in Hv, HM.
assert (exists eu, u = v + s + eu /\ Rabs eu <= / 33554432) as [eu [Eu Du]].
{ exists (u - (v + s)). split. ring. unfold u. rewrite <- Ev. replace (/ 33554432) with (bpow radix2 (0 - 25)) by (powers; reflexivity).
  apply rnd_error. lia. powers. apply Rabs_le. lra. }
assert (exists ew, rnd (u * u + r) = u * u + r + ew /\ Rabs ew <= / 16777216) as [ew [Ew Dw]].
{ exists (rnd (u * u + r) - (u * u + r)). split. ring. replace (/ 16777216) with (bpow radix2 (1 - 25)) by (powers; reflexivity).
  apply rnd_error. lia. powers. rewrite Eu. interval with (i_prec 60). }
assert (exists d, g1 = g * rnd (u * u + r) * (1 + d) /\ Rabs d <= / 16777216) as [d [E1 D1]].
{ apply rnd_normal. rewrite Rabs_mult. assert (0.7 <= Rabs (rnd (u * u + r))).
  { rewrite Ew, Eu, Rabs_pos_eq; interval with (i_prec 60). }
  assert (0 < bpow radix2 (-126)) by apply bpow_gt_0. assert (0 <= Rabs g) by apply Rabs_pos. nra. }
set (M := v * ((v + s) * (v + s) + r) - 1) in HM.
set (K := v * (2 * (v + s) * eu + eu * eu + ew) * (1 + d) + d).
assert (EX : x * g1 = 1 + M * (1 + d) + K).
{ rewrite E1, Ew, Eu. unfold K, M. rewrite Ev. ring. }
assert (HK : Rabs K <= 0.000000175) by (unfold K; interval with (i_prec 60)).
assert (HD : Rabs (M * (1 + d) + K) <= near + 0.00000018).
{ apply Rle_trans with (1 := Rabs_triang _ _). rewrite Rabs_mult.
  assert (Rabs (1 + d) <= 1.0000001) by interval with (i_prec 60).
  assert (0 <= Rabs M) by apply Rabs_pos. assert (0 <= Rabs (1 + d)) by apply Rabs_pos. nra. }
set (D := M * (1 + d) + K) in HD.
assert (ED : - x * g1 + 1 = - D) by (unfold D; replace (- x * g1) with (- (x * g1)) by ring; rewrite EX; ring).
assert (HD' : Rabs D <= 0.0000402) by lra.
assert (exists eg, gap = - D + eg /\ Rabs eg <= / 549755813888) as [eg [Eg Dg]].
{ exists (gap - - D). split. ring. unfold gap. rewrite ED. replace (/ 549755813888) with (bpow radix2 (-14 - 25)) by (powers; reflexivity).
  apply rnd_error. lia. powers. rewrite Rabs_Ropp. lra. }
split.
- rewrite Eg. clear - HD' Dg. interval with (i_prec 60).
- replace (x * (g1 * gap + g1) - 1) with (x * g1 * (1 + gap) - 1) by ring.
  rewrite EX, Eg. replace (1 + M * (1 + d) + K) with (1 + D) by (unfold D; ring).
  replace ((1 + D) * (1 + (- D + eg)) - 1) with (- (D * D) + (1 + D) * eg) by ring.
  apply Rle_trans with (1 := Rabs_triang _ _). rewrite Rabs_Ropp, Rabs_mult.
  apply Rplus_le_compat.
  + apply Rmult_le_compat; try apply Rabs_pos; exact HD.
  + clear - HD' Dg. interval with (i_prec 60).
Qed.
(** ** The logarithm *)

(** A normal x is m*2^k, where m begins at a pattern between those of 1/2 and 1. *)
Lemma significand (x : R) (p : Z) : F32 x -> bpow radix2 (-126) <= x < bpow radix2 128 -> (0 <= p < 2 ^ 23)%Z ->
  let k := shr (isub (bits x) (126 * 2 ^ 23 + p)) 23 in
  (-126 <= k <= 128)%Z /\
  exists N, (2 ^ 23 + p <= N < 2 * (2 ^ 23 + p))%Z /\ x = IZR N * bpow radix2 (k - 24) /\
  float (isub (bits x) (shl k 23)) = IZR N * bpow radix2 (-24).
Proof.
intros F Hx Hp k.
destruct (normal_form x F (proj1 Hx)) as [M [e [E [HM He]]]].
assert (Q := bpow_gt_0 radix2 e).
assert (B1 : 8388608 <= IZR M) by (apply (IZR_le (2 ^ 23)); lia).
assert (E2 : (e <= 104)%Z).
{ assert (23 + e < 128)%Z; [|lia]. apply (lt_bpow radix2). rewrite bpow_plus. change (bpow radix2 23) with 8388608. nra. }
assert (B := bits_normal M e HM He). rewrite <- E in B.
assert (EK : k = if (M - 2 ^ 23 <? p)%Z then (e + 23)%Z else (e + 24)%Z).
{ unfold k, shr, isub. rewrite B, wrap_small by lia. clear - Hp HM.
  destruct (Z.ltb_spec (M - 2 ^ 23) p); Z.to_euclidean_division_equations; lia. }
destruct (Z.ltb_spec (M - 2 ^ 23) p) as [H | H].
- split. lia. exists (2 * M)%Z. split. lia. split.
  + rewrite E, EK, mult_IZR. replace (e + 23 - 24)%Z with (-1 + e)%Z by ring. rewrite bpow_plus. change (bpow radix2 (-1)) with (/ 2). lra.
  + rewrite EK, B. unfold shl. rewrite wrap_small by lia. unfold isub. rewrite wrap_small by lia.
    replace (M + (e + 149) * 2 ^ 23 - (e + 23) * 2 ^ 23)%Z with (127 * 2 ^ 23 + (M - 2 ^ 23))%Z by ring.
    rewrite float_normal by lia. replace (M - 2 ^ 23 + 2 ^ 23)%Z with M by ring. rewrite mult_IZR.
    change (bpow radix2 (127 - 150)) with (/ 8388608). change (bpow radix2 (-24)) with (/ 16777216). lra.
- split. lia. exists M. split. lia. split.
  + rewrite E, EK. do 2 f_equal. ring.
  + rewrite EK, B. unfold shl. rewrite wrap_small by lia. unfold isub. rewrite wrap_small by lia.
    replace (M + (e + 149) * 2 ^ 23 - (e + 24) * 2 ^ 23)%Z with (126 * 2 ^ 23 + (M - 2 ^ 23))%Z by ring.
    rewrite float_normal by lia. do 2 f_equal. ring.
Qed.

(** The reduction of the argument of a logarithm: x = (1 + f)*2^k, exactly, also for subnormal x. *)
Lemma reduce_log (x : R) (p : Z) : F32 x -> 0 < x < bpow radix2 128 -> (0 <= p < 2 ^ 22)%Z ->
  let is_small := Rlt_bool x (1 / 85070591730234615865843651857942052864) in
  let xn := if is_small then rnd (x * 8388608) else x in
  let k := shr (isub (bits xn) (126 * 2 ^ 23 + p)) 23 in
  let f := rnd (float (isub (bits xn) (shl k 23)) - 1) in
  let kf := rnd (IZR (iadd k (if is_small then (-23)%Z else 0%Z))) in
  exists J K, f = IZR J * bpow radix2 (-24) /\ (p - 2 ^ 23 <= J < 2 * p)%Z /\ kf = IZR K /\ (-149 <= K <= 128)%Z /\
  ln x = IZR K * ln 2 + ln (1 + f).
Proof.
intros F Hx Hp is_small xn k f kf.
assert (N : F32 xn /\ bpow radix2 (-126) <= xn < bpow radix2 128 /\ x = xn * bpow radix2 (if is_small then (-23)%Z else 0%Z)).
{ unfold xn, is_small. case Rlt_bool_spec; intros S.
  - replace (1 / _) with (bpow radix2 (-126)) in S by (powers; lra).
    assert (L := F32_least x F ltac:(lra)). rewrite Rabs_pos_eq in L by lra.
    assert (F' : F32 (x * 8388608)).
    { change 8388608 with (bpow radix2 23). apply F32_scale with (-148)%Z. exact F. rewrite Rabs_pos_eq by lra. exact L. lia. }
    rewrite round_generic; auto with typeclass_instances. split. exact F'.
    split. split.
    + replace (-126)%Z with (-149 + 23)%Z by ring. rewrite bpow_plus. change (bpow radix2 23) with 8388608. nra.
    + apply Rlt_trans with (bpow radix2 (-126) * 8388608). nra. change 8388608 with (bpow radix2 23). rewrite <- bpow_plus. apply bpow_lt. lia.
    + change (bpow radix2 (-23)) with (/ 8388608). lra.
  - replace (1 / _) with (bpow radix2 (-126)) in S by (powers; lra).
    split. exact F. split. lra. simpl. ring. }
destruct N as [FN [HN EN]].
destruct (significand xn p FN HN ltac:(lia)) as [Hk [N [HNp [Ex Ef]]]]. fold k in Hk, Ex, Ef.
exists (N - 2 ^ 24)%Z, (k + if is_small then -23 else 0)%Z.
assert (E1 : f = IZR (N - 2 ^ 24) * bpow radix2 (-24)).
{ unfold f. rewrite Ef. replace (_ - 1) with (IZR (N - 2 ^ 24) * bpow radix2 (-24)).
  - apply round_generic; auto with typeclass_instances. apply F32_dyadic; lia.
  - rewrite minus_IZR. change (IZR (2 ^ 24)) with 16777216. change (bpow radix2 (-24)) with (/ 16777216). lra. }
split. exact E1. split. lia. split; [|split].
- unfold kf, iadd. rewrite wrap_small by (destruct is_small; lia).
  replace (IZR _) with (IZR (k + if is_small then -23 else 0) * bpow radix2 0) at 1 by (simpl; ring).
  rewrite round_generic; auto with typeclass_instances. simpl; ring. apply F32_dyadic; destruct is_small; lia.
- destruct is_small; lia.
- assert (E2 : 1 + f = IZR N * bpow radix2 (-24)).
  { rewrite E1, minus_IZR. change (IZR (2 ^ 24)) with 16777216. change (bpow radix2 (-24)) with (/ 16777216). lra. }
  assert (PN : 0 < IZR N) by (apply IZR_lt; lia).
  assert (EX : x = (1 + f) * bpow radix2 (k + if is_small then -23 else 0)).
  { rewrite EN, Ex, E2, !Rmult_assoc, <- !bpow_plus. do 2 f_equal. ring. }
  assert (P1 : 0 < 1 + f) by (rewrite E2; assert (Q := bpow_gt_0 radix2 (-24)); nra).
  rewrite EX, ln_mult, bpow_exp, ln_exp; [|exact P1|apply bpow_gt_0]. change (IZR radix2) with 2. ring.
Qed.

(** Rounding keeps multiples of 2^-24. *)
Lemma rnd_multiple (A : Z) : exists H, rnd (IZR A * bpow radix2 (-24)) = IZR H * bpow radix2 (-24).
Proof.
destruct (Z.le_gt_cases (Z.abs A) (2 ^ 24)) as [S | S].
- exists A. apply round_generic; auto with typeclass_instances. apply F32_dyadic; lia.
- destruct (F32_multiple (-1) (rnd (IZR A * bpow radix2 (-24)))) as [H E].
  + apply generic_format_round; auto with typeclass_instances.
  + apply abs_round_ge_generic; auto with typeclass_instances. apply generic_format_bpow; unfold FLT_exp; lia.
    rewrite Rabs_mult, (Rabs_pos_eq (bpow _ _)), <- abs_IZR by apply bpow_ge_0.
    apply Z.lt_le_incl, IZR_le in S. change (IZR (2 ^ 24)) with 16777216 in S. powers. lra.
  + exists H. exact E.
Qed.

(** k times the short part of ln 2, plus f, as a sum of two numbers: no error. *)
Lemma sum_in_two (J K S : Z) (f : R) : f = IZR J * bpow radix2 (-24) -> (Z.abs J <= 2 ^ 23)%Z -> (Z.abs K <= 160)%Z -> (0 <= S <= 2 ^ 15)%Z ->
  let a := rnd (IZR K * (IZR S / 32768)) in
  let hi := rnd (a + f) in
  let lo := rnd (rnd (a - hi) + f) in
  hi + lo = IZR K * (IZR S / 32768) + f /\ Rabs lo <= / 131072 /\ (K = 0%Z -> hi = f).
Proof.
intros Ef HJ HK HS a hi lo.
assert (Ea : a = IZR (K * S * 512) * bpow radix2 (-24)).
{ unfold a. replace (IZR K * (IZR S / 32768)) with (IZR (K * S) * bpow radix2 (-15)).
  - rewrite round_generic; auto with typeclass_instances.
    + rewrite (mult_IZR (K * S)). change (bpow radix2 (-24)) with (/ 16777216). change (bpow radix2 (-15)) with (/ 32768). lra.
    + apply F32_dyadic; nia.
  - rewrite mult_IZR. change (bpow radix2 (-15)) with (/ 32768). lra. }
assert (EA : a = IZR K * (IZR S / 32768)).
{ rewrite Ea, !mult_IZR. change (bpow radix2 (-24)) with (/ 16777216). lra. }
assert (Es : a + f = IZR (K * S * 512 + J) * bpow radix2 (-24)) by (rewrite Ea, Ef, plus_IZR; ring).
destruct (rnd_multiple (K * S * 512 + J)) as [H EH]. rewrite <- Es in EH. fold hi in EH.
assert (BJ : Rabs f <= / 2).
{ rewrite Ef, Rabs_mult, (Rabs_pos_eq (bpow _ _)), <- abs_IZR by apply bpow_ge_0. apply IZR_le in HJ. change (IZR (2 ^ 23)) with 8388608 in HJ. powers. lra. }
assert (D : Rabs (hi - (a + f)) <= / 131072).
{ replace (/ 131072) with (bpow radix2 (8 - 25)) by (powers; reflexivity). apply rnd_error. lia.
  rewrite EA. apply Rle_trans with (1 := Rabs_triang _ _). rewrite Rabs_mult.
  assert (Rabs (IZR K) <= 160) by (rewrite <- abs_IZR; now apply IZR_le).
  assert (Rabs (IZR S / 32768) <= 1). { apply Rabs_le. assert (0 <= IZR S <= 32768) by (split; apply IZR_le; lia). lra. }
  assert (0 <= Rabs (IZR K)) by apply Rabs_pos. assert (0 <= Rabs (IZR S / 32768)) by apply Rabs_pos. powers. nra. }
assert (E1 : rnd (a - hi) = a - hi).
{ apply round_generic; auto with typeclass_instances.
  replace (a - hi) with (IZR (K * S * 512 - H) * bpow radix2 (-24)) by (rewrite Ea, EH, minus_IZR; ring).
  apply F32_dyadic; [|lia]. apply le_IZR. rewrite abs_IZR.
  apply Rmult_le_reg_r with (bpow radix2 (-24)). apply bpow_gt_0.
  rewrite <- (Rabs_pos_eq (bpow radix2 (-24))) at 1 by apply bpow_ge_0.
  rewrite <- Rabs_mult, minus_IZR, Rmult_minus_distr_r, <- Ea, <- EH. change (IZR (2 ^ 24)) with 16777216. powers.
  apply Rabs_le_inv in D. apply Rabs_le_inv in BJ. apply Rabs_le. lra. }
assert (E2 : lo = a + f - hi).
{ unfold lo. rewrite E1. replace (a - hi + f) with (a + f - hi) by ring. apply round_generic; auto with typeclass_instances.
  replace (a + f - hi) with (IZR (K * S * 512 + J - H) * bpow radix2 (-24)) by (rewrite Es, EH, minus_IZR; ring).
  apply F32_dyadic; [|lia]. apply le_IZR. rewrite abs_IZR.
  apply Rmult_le_reg_r with (bpow radix2 (-24)). apply bpow_gt_0.
  rewrite <- (Rabs_pos_eq (bpow radix2 (-24))) at 1 by apply bpow_ge_0.
  rewrite <- Rabs_mult, minus_IZR, Rmult_minus_distr_r, <- Es, <- EH. change (IZR (2 ^ 24)) with 16777216. powers.
  rewrite Rabs_minus_sym. lra. }
split. rewrite E2, EA. ring. split.
- rewrite E2, Rabs_minus_sym. exact D.
- intros K0. unfold hi. rewrite EA, K0. replace (0 * _ + f) with f by ring.
  apply round_generic; auto with typeclass_instances. rewrite Ef. apply F32_dyadic; lia.
Qed.

(** f times c + cl in two numbers, the second from FMAs: almost no error. *)
Lemma product_in_two (f c cl : R) : f = 0 \/ / 16777216 <= Rabs f -> Rabs c <= 2 -> Rabs cl <= / 33554432 ->
  let g := rnd (f * c) in
  let rest := rnd (f * cl + rnd (f * c + - g)) in
  Rabs (g + rest - f * (c + cl)) <= Rabs f * / 35184372088832 /\ Rabs rest <= Rabs f * / 4194304.
Proof.
intros [-> | Hf] Hc Hcl g rest.
- assert (E0 : rnd 0 = 0) by (apply round_0; auto with typeclass_instances).
  assert (G : g = 0) by (unfold g; now rewrite Rmult_0_l).
  assert (R0 : rest = 0) by (unfold rest; rewrite G; replace (0 * c + - 0) with 0 by ring; rewrite E0; replace (0 * cl + 0) with 0 by ring; exact E0).
  rewrite G, R0. replace (0 + 0 - 0 * (c + cl)) with 0 by ring. rewrite Rabs_R0. lra.
- assert (T : bpow radix2 (-150) <= Rabs f * / 1208925819614629174706176).
  { apply Rle_trans with (/ 16777216 * / 1208925819614629174706176); [|apply Rmult_le_compat_r; lra].
    apply Rle_trans with (bpow radix2 (-104)). apply bpow_le; lia. powers. lra. }
  destruct (rnd_mixed (f * c)) as [e1 [E1 D1]].
  assert (P1 : Rabs (f * c) <= Rabs f * 2) by (rewrite Rabs_mult; apply Rmult_le_compat_l; [apply Rabs_pos | exact Hc]).
  assert (P2 : Rabs (f * cl) <= Rabs f * / 33554432) by (rewrite Rabs_mult; apply Rmult_le_compat_l; [apply Rabs_pos | exact Hcl]).
  unfold rest, g. rewrite E1. replace (f * c + - (f * c + e1)) with (- e1) by ring.
  destruct (rnd_mixed (- e1)) as [e2 [E2 D2]]. rewrite E2, Rabs_Ropp in *.
  destruct (rnd_mixed (f * cl + (- e1 + e2))) as [e3 [E3 D3]]. rewrite E3.
  assert (T3 : Rabs (f * cl + (- e1 + e2)) <= Rabs f * / 33554432 + Rabs e1 + Rabs e2).
  { apply Rle_trans with (1 := Rabs_triang _ _). generalize (Rabs_triang (- e1) e2). rewrite Rabs_Ropp. lra. }
  assert (0 <= Rabs f) by apply Rabs_pos.
  split.
  + replace (f * c + e1 + (f * cl + (- e1 + e2) + e3) - f * (c + cl)) with (e2 + e3) by ring.
    apply Rle_trans with (1 := Rabs_triang _ _). lra.
  + apply Rle_trans with (1 := Rabs_triang _ _). lra.
Qed.

(** An integer plus g, as a sum of two numbers: almost no error. *)
Lemma integer_in_two (K : Z) (g : R) : F32 g -> Rabs g <= 6 / 10 -> (Z.abs K <= 160)%Z ->
  let hi := rnd (IZR K + g) in
  let lo := rnd (rnd (IZR K - hi) + g) in
  Rabs (hi + lo - (IZR K + g)) <= / 4398046511104 /\ Rabs lo <= / 131072 /\ (K = 0%Z -> hi = g /\ lo = 0).
Proof.
intros F Hg HK hi lo.
destruct (Z.eq_dec K 0) as [-> | NK].
{ assert (E1 : hi = g) by (unfold hi; rewrite Rplus_0_l; apply round_generic; auto with typeclass_instances).
  assert (E2 : lo = 0).
  { unfold lo. rewrite E1. rewrite (round_generic _ _ _ (0 - g)) by (rewrite Rminus_0_l; now apply generic_format_opp).
    replace (0 - g + g) with 0 by ring. apply round_0; auto with typeclass_instances. }
  rewrite E1, E2. replace (g + 0 - (0 + g)) with 0 by ring. rewrite Rabs_R0. repeat split; lra. }
assert (M : exists H, hi = IZR H * bpow radix2 (-24)).
{ destruct (Rle_lt_dec (/ 2) (Rabs g)) as [L | L].
  - destruct (F32_multiple (-1) g F) as [m Em]. { powers. lra. }
    assert (Es : IZR K + g = IZR (K * 2 ^ 24 + m) * bpow radix2 (-24)).
    { rewrite Em, plus_IZR, mult_IZR. change (-1 - 23)%Z with (-24)%Z. powers. change (IZR (2 ^ 24)) with 16777216. field. }
    unfold hi. rewrite Es. apply rnd_multiple.
  - apply (F32_multiple (-1)). apply generic_format_round; auto with typeclass_instances.
    apply abs_round_ge_generic; auto with typeclass_instances. apply generic_format_bpow; unfold FLT_exp; lia.
    assert (1 <= Rabs (IZR K)) by (rewrite <- abs_IZR; apply IZR_le; lia).
    generalize (Rabs_triang_inv (IZR K) (- g)). rewrite Rabs_Ropp. replace (IZR K - - g) with (IZR K + g) by ring. powers. lra. }
destruct M as [H EH].
assert (D : Rabs (hi - (IZR K + g)) <= / 131072).
{ replace (/ 131072) with (bpow radix2 (8 - 25)) by (powers; reflexivity). apply rnd_error. lia.
  apply Rle_trans with (1 := Rabs_triang _ _).
  assert (Rabs (IZR K) <= 160) by (rewrite <- abs_IZR; now apply IZR_le). powers. lra. }
assert (E1 : rnd (IZR K - hi) = IZR K - hi).
{ apply round_generic; auto with typeclass_instances.
  assert (Ea : IZR K - hi = IZR (K * 2 ^ 24 - H) * bpow radix2 (-24)).
  { rewrite EH, minus_IZR, mult_IZR. powers. change (IZR (2 ^ 24)) with 16777216. field. }
  rewrite Ea. apply F32_dyadic; [|lia]. apply le_IZR. rewrite abs_IZR.
  apply Rmult_le_reg_r with (bpow radix2 (-24)). apply bpow_gt_0.
  rewrite <- (Rabs_pos_eq (bpow radix2 (-24))) at 1 by apply bpow_ge_0.
  rewrite <- Rabs_mult, <- Ea. change (IZR (2 ^ 24)) with 16777216. powers.
  apply Rabs_le_inv in D. apply Rabs_le_inv in Hg. apply Rabs_le. lra. }
unfold lo. rewrite E1. replace (IZR K - hi + g) with (- (hi - (IZR K + g))) by ring.
assert (D' : Rabs (- (hi - (IZR K + g))) <= / 131072) by now rewrite Rabs_Ropp.
split; [|split].
- replace (hi + rnd (- (hi - (IZR K + g))) - (IZR K + g)) with (rnd (- (hi - (IZR K + g))) - - (hi - (IZR K + g))) by ring.
  replace (/ 4398046511104) with (bpow radix2 (-17 - 25)) by (powers; reflexivity). apply rnd_error. lia. powers. exact D'.
- replace (/ 131072) with (bpow radix2 (-17)) by (powers; reflexivity).
  apply abs_round_le_generic; auto with typeclass_instances. apply generic_format_bpow; unfold FLT_exp; lia.
- intros K0. contradiction.
Qed.

(** Bounds of the logarithm near 1. *)
Lemma ln_near (f : R) : -1 < f -> f / (1 + f) <= ln (1 + f) <= f.
Proof.
assert (L : forall f, -1 < f -> ln (1 + f) <= f).
{ intros g Hg. destruct (Req_dec g 0) as [-> | N]. rewrite Rplus_0_r, ln_1. lra.
  left. rewrite <- (ln_exp g) at 2. apply ln_increasing. lra. now apply exp_ineq1. }
intros Hf. split; [|now apply L].
assert (D := L (- (f / (1 + f)))). replace (1 + - (f / (1 + f))) with (/ (1 + f)) in D by (field; lra).
rewrite ln_Rinv in D by lra. assert (-1 < - (f / (1 + f))). { apply Rmult_lt_reg_r with (1 + f). lra. field_simplify; lra. }
specialize (D H). lra.
Qed.

(** Replaces the rounding of z, a number of at most 2^k, by an error e. *)
Ltac step z k e D :=
  let E := fresh "E" in destruct (rnd_step k z ltac:(lia) ltac:(bound)) as [e [E D]]; rewrite E; clear E; revert D; powers; intros D.

(** The same, where the bound needs r cut into pieces. *)
Ltac rounding_over r k :=
  match goal with |- context [round radix2 (FLT_exp (-149) 24) ZnearestE ?z] =>
    lazymatch z with
    | context [round radix2 (FLT_exp (-149) 24) ZnearestE _] => fail
    | _ => let e := fresh "e" in let E := fresh "E" in let D := fresh "D" in
      destruct (rnd_step k z ltac:(lia) ltac:(powers; interval with (i_bisect r, i_prec 60))) as [e [E D]]; rewrite E; clear E;
      revert D; powers; intros D
    end end.
