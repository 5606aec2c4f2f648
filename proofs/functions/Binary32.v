(** * Binary32 for functions

    Binary32 arithmetic over the real numbers, the patterns of its numbers, and lemmas about the
    ways in which functions reduce their argument and scale their result. Nothing here knows a
    function's constants. *)
From Coq Require Import Reals ZArith Lia Lra Psatz.
From Flocq Require Import Core.
From Interval Require Import Tactic.
Open Scope R_scope.

(** The format: 24 bits, subnormals, no largest number. Overflow is a separate claim. *)
Notation rnd := (round radix2 (FLT_exp (-149) 24) ZnearestE).
Definition F32 (x : R) : Prop := generic_format radix2 (FLT_exp (-149) 24) x.
Definition ulp32 (x : R) : R := ulp radix2 (FLT_exp (-149) 24) x.

(** int32, wrapping. *)
Definition wrap (z : Z) : Z := ((z + 2 ^ 31) mod 2 ^ 32 - 2 ^ 31)%Z.
Definition shl (z c : Z) : Z := wrap (z * 2 ^ c).
Definition shr (z c : Z) : Z := (z / 2 ^ c)%Z.
Definition iadd (a b : Z) : Z := wrap (a + b).
Definition isub (a b : Z) : Z := wrap (a - b).

(** The pattern of a number other than -0, and the number of a pattern with an exponent
    field below 255. *)
Definition magnitude_bits (a : R) : Z :=
  let e := cexp radix2 (FLT_exp (-149) 24) a in
  (Ztrunc (scaled_mantissa radix2 (FLT_exp (-149) 24) a) + (e + 149) * 2 ^ 23)%Z.
Definition bits (x : R) : Z :=
  if Rle_dec 0 x then magnitude_bits x else (magnitude_bits (- x) - 2 ^ 31)%Z.
Definition magnitude_float (a : Z) : R :=
  let e := (a / 2 ^ 23)%Z in
  let f := (a mod 2 ^ 23)%Z in
  if (e =? 0)%Z then IZR f * bpow radix2 (-149) else IZR (f + 2 ^ 23) * bpow radix2 (e - 150).
Definition float (z : Z) : R :=
  if (z <? 0)%Z then - magnitude_float (z + 2 ^ 31) else magnitude_float z.

Lemma FLT_valid : Valid_exp (FLT_exp (-149) 24).
Proof. apply FLT_exp_valid. reflexivity. Qed.
#[export] Existing Instance FLT_valid.

(** An integer times a power of two is in the format if it has at most 24 bits. *)
Lemma F32_dyadic (m e : Z) : (Z.abs m <= 2 ^ 24)%Z -> (-149 <= e)%Z -> F32 (IZR m * bpow radix2 e).
Proof.
intros Hm He.
destruct (Z.eq_dec (Z.abs m) (2 ^ 24)) as [H | H].
- assert (Hb : F32 (bpow radix2 (24 + e))).
  { apply generic_format_bpow. unfold FLT_exp. lia. }
  rewrite bpow_plus in Hb.
  assert (Hm' : m = (2 ^ 24)%Z \/ m = (- 2 ^ 24)%Z) by lia.
  destruct Hm' as [-> | ->].
  + exact Hb.
  + replace (IZR (- 2 ^ 24) * bpow radix2 e) with (- (bpow radix2 24 * bpow radix2 e)).
    * now apply generic_format_opp.
    * change (bpow radix2 24) with (IZR (2 ^ 24)). rewrite opp_IZR. ring.
- apply generic_format_FLT.
  apply (FLT_spec radix2 (-149) 24 _ (Float radix2 m e)); simpl; try lia.
  reflexivity.
Qed.

(** Half an ulp for numbers of at most 2^k. *)
Lemma rnd_error (k : Z) (z : R) :
  (-125 <= k)%Z -> Rabs z <= bpow radix2 k -> Rabs (rnd z - z) <= bpow radix2 (k - 25).
Proof.
intros Hk Hz.
destruct (Req_dec (Rabs z) (bpow radix2 k)) as [E | E].
- assert (F : generic_format radix2 (FLT_exp (-149) 24) z).
  { apply generic_format_abs_inv. rewrite E. apply generic_format_bpow. unfold FLT_exp. lia. }
  rewrite round_generic; auto with typeclass_instances.
  replace (z - z) with 0 by ring. rewrite Rabs_R0. apply bpow_ge_0.
- apply Rle_trans with (1 := error_le_half_ulp radix2 _ (fun x => negb (Z.even x)) z).
  apply Rle_trans with (/ 2 * bpow radix2 (k - 24)).
  + apply Rmult_le_compat_l. lra.
    destruct (Req_dec z 0) as [-> | Hnz].
    * rewrite ulp_FLT_0 by reflexivity. apply bpow_le. lia.
    * rewrite ulp_neq_0 by exact Hnz. apply bpow_le. unfold cexp, FLT_exp.
      assert (mag radix2 z <= k)%Z by (apply mag_le_bpow; [exact Hnz | lra]).
      lia.
  + replace (k - 24)%Z with (1 + (k - 25))%Z by ring.
    rewrite bpow_plus. change (bpow radix2 1) with 2. lra.
Qed.

(** A number of at least 2^k is a multiple of 2^(k-23). *)
Lemma F32_multiple (k : Z) (x : R) :
  F32 x -> bpow radix2 k <= Rabs x -> exists m : Z, x = IZR m * bpow radix2 (k - 23).
Proof.
intros F H.
assert (Hnz : x <> 0).
{ intros ->. rewrite Rabs_R0 in H. generalize (bpow_gt_0 radix2 k). lra. }
assert (M : (k + 1 <= mag radix2 x)%Z) by (apply mag_ge_bpow; replace (k + 1 - 1)%Z with k by ring; exact H).
unfold F32, generic_format, F2R in F. simpl in F.
set (e := cexp radix2 (FLT_exp (-149) 24) x) in F.
assert (He : (k - 23 <= e)%Z) by (unfold e, cexp, FLT_exp; lia).
exists (Ztrunc (scaled_mantissa radix2 (FLT_exp (-149) 24) x) * 2 ^ (e - (k - 23)))%Z.
rewrite F at 1. rewrite mult_IZR, (IZR_Zpower radix2) by lia.
rewrite Rmult_assoc, <- bpow_plus. do 2 f_equal. lia.
Qed.

(** Adding 1.5*2^23 or a number near it rounds to an integer. *)
Lemma rnd_integer (z : R) :
  8388608 <= z <= 16777215 -> exists k : Z, rnd z = IZR k /\ Rabs (IZR k - z) <= / 2 /\ (8388608 <= k <= 16777215)%Z.
Proof.
intros Hz.
assert (Hr : 8388608 <= rnd z <= 16777215).
{ split; [replace 8388608 with (IZR 8388608 * bpow radix2 0) by (simpl; ring)
         |replace 16777215 with (IZR 16777215 * bpow radix2 0) by (simpl; ring)].
  - apply round_ge_generic; auto with typeclass_instances. apply F32_dyadic; lia. simpl. lra.
  - apply round_le_generic; auto with typeclass_instances. apply F32_dyadic; lia. simpl. lra. }
assert (F : F32 (rnd z)) by (apply generic_format_round; auto with typeclass_instances).
destruct (F32_multiple 23 _ F) as [k Hk].
{ rewrite Rabs_pos_eq by lra. change (bpow radix2 23) with 8388608. lra. }
replace (bpow radix2 (23 - 23)) with 1 in Hk by reflexivity.
rewrite Rmult_1_r in Hk. exists k. rewrite Hk in Hr. repeat split.
- exact Hk.
- rewrite <- Hk.
  replace (/ 2) with (bpow radix2 (24 - 25)) by (simpl; lra).
  apply rnd_error. lia. rewrite Rabs_pos_eq by lra. change (bpow radix2 24) with 16777216. lra.
- apply le_IZR. lra.
- apply le_IZR. lra.
Qed.

(** The pattern of a 24-bit integer, shifted so that its low bits are an exponent field. *)
Lemma bits_integer (k : Z) : (8388608 <= k <= 16777215)%Z -> bits (IZR k) = (k + 149 * 2 ^ 23)%Z.
Proof.
intros Hk. unfold bits. destruct (Rle_dec 0 (IZR k)) as [_ | N].
2: { exfalso. apply N. apply IZR_le. lia. }
unfold magnitude_bits.
assert (M : (mag radix2 (IZR k) = 24 :> Z)%Z).
{ apply mag_unique. rewrite Rabs_pos_eq by (apply IZR_le; lia).
  change (bpow radix2 (24 - 1)) with (IZR 8388608). change (bpow radix2 24) with (IZR 16777216).
  split. apply IZR_le. lia. apply IZR_lt. lia. }
assert (E : cexp radix2 (FLT_exp (-149) 24) (IZR k) = 0%Z) by (unfold cexp; rewrite M; reflexivity).
unfold scaled_mantissa. rewrite E. simpl (bpow radix2 (- 0)). rewrite Rmult_1_r, Ztrunc_IZR. lia.
Qed.

Lemma float_power (a : Z) : (1 <= a <= 254)%Z -> float (a * 2 ^ 23) = bpow radix2 (a - 127).
Proof.
intros Ha. unfold float. replace (a * 2 ^ 23 <? 0)%Z with false by (symmetry; apply Z.ltb_ge; lia).
unfold magnitude_float. rewrite Z.div_mul, Z.mod_mul by lia.
replace (a =? 0)%Z with false by (symmetry; apply Z.eqb_neq; lia).
change (0 + 2 ^ 23)%Z with (radix2 ^ 23)%Z. rewrite IZR_Zpower, <- bpow_plus by lia. f_equal. lia.
Qed.

(** The scale factor of an exponential: the low 9 bits of an integer t, as an exponent field. *)
Lemma float_shl_bits (k a : Z) :
  (8388608 <= k <= 16777215)%Z -> (1 <= a <= 254)%Z -> (k mod 512 = a)%Z -> float (shl (bits (IZR k)) 23) = bpow radix2 (a - 127).
Proof.
intros Hk Ha E. rewrite bits_integer by exact Hk.
replace (shl (k + 149 * 2 ^ 23) 23) with (a * 2 ^ 23)%Z. now apply float_power.
unfold shl, wrap. Z.to_euclidean_division_equations. lia.
Qed.

Lemma rnd_step (k : Z) (z : R) :
  (-125 <= k)%Z -> Rabs z <= bpow radix2 k -> exists e, rnd z = z + e /\ Rabs e <= bpow radix2 (k - 25).
Proof.
intros Hk Hz. exists (rnd z - z). split. ring. now apply rnd_error.
Qed.

(** The format contains the neighbour of z that is nearest. *)
Lemma rnd_near (z g : R) : F32 g -> Rabs (rnd z - z) <= Rabs (g - z).
Proof. intros F. apply round_N_pt; auto with typeclass_instances. Qed.

(** Close to a power of two, the nearest number is that power. *)
Lemma rnd_power (e : Z) (z : R) : (-100 <= e)%Z -> Rabs (z - bpow radix2 e) <= bpow radix2 (e - 27) -> rnd z = bpow radix2 e.
Proof.
intros He Hz.
assert (Fb : F32 (bpow radix2 e)) by (apply generic_format_bpow; unfold FLT_exp; lia).
assert (N := rnd_near z _ Fb).
assert (D : Rabs (rnd z - bpow radix2 e) <= bpow radix2 (e - 26)).
{ replace (e - 26)%Z with (1 + (e - 27))%Z by ring. rewrite bpow_plus. change (bpow radix2 1) with 2.
  rewrite Rabs_minus_sym in N. apply Rabs_le_inv in Hz. apply Rabs_le.
  rewrite Rabs_minus_sym in N. revert N. unfold Rabs. repeat destruct Rcase_abs; lra. }
assert (P : bpow radix2 (e - 26) = bpow radix2 (e - 24) * / 4).
{ replace (e - 26)%Z with (e - 24 + -2)%Z by ring. rewrite bpow_plus. change (bpow radix2 (-2)) with (/ 4). ring. }
assert (Q : bpow radix2 e = bpow radix2 (e - 24) * 16777216).
{ replace e with (e - 24 + 24)%Z at 1 by ring. rewrite bpow_plus. reflexivity. }
assert (H : bpow radix2 (e - 1) <= Rabs (rnd z)).
{ assert (H : bpow radix2 (e - 1) = bpow radix2 (e - 24) * 8388608).
  { replace (e - 1)%Z with (e - 24 + 23)%Z by ring. rewrite bpow_plus. reflexivity. }
  generalize (bpow_gt_0 radix2 (e - 24)). intros.
  apply Rabs_le_inv in D. rewrite Rabs_pos_eq; lra. }
destruct (F32_multiple (e - 1) (rnd z)) as [m Hm].
apply generic_format_round; auto with typeclass_instances. exact H.
replace (e - 1 - 23)%Z with (e - 24)%Z in Hm by ring.
rewrite Hm, Q, P in D. rewrite Hm, Q.
replace (IZR m * bpow radix2 (e - 24) - bpow radix2 (e - 24) * 16777216) with (IZR (m - 16777216) * bpow radix2 (e - 24)) in D
  by (rewrite minus_IZR; ring).
rewrite Rabs_mult, (Rabs_pos_eq (bpow _ _)) in D by apply bpow_ge_0.
assert (Z : (Z.abs (m - 16777216) < 1)%Z).
{ apply lt_IZR. rewrite abs_IZR. apply Rmult_lt_reg_r with (bpow radix2 (e - 24)). apply bpow_gt_0.
  generalize (bpow_gt_0 radix2 (e - 24)). lra. }
replace m with 16777216%Z by lia. ring.
Qed.

Lemma ulp32_power (T : R) (j : Z) : bpow radix2 (j - 1) <= T < bpow radix2 j -> ulp32 T = bpow radix2 (Z.max (j - 24) (-149)).
Proof.
intros H. assert (H0 := bpow_gt_0 radix2 (j - 1)).
unfold ulp32. rewrite ulp_neq_0 by lra. unfold cexp, FLT_exp.
replace (mag radix2 T : Z) with j. f_equal; lia.
symmetry. apply mag_unique. now rewrite Rabs_pos_eq by lra.
Qed.

(** Scaling by a power of two is exact while no bit falls below 2^-149. *)
Lemma F32_scale (p : R) (j c : Z) : F32 p -> bpow radix2 (j - 1) <= Rabs p -> (-149 <= j - 24 + c)%Z -> F32 (p * bpow radix2 c).
Proof.
intros F H Hc.
assert (Hnz : p <> 0).
{ intros ->. rewrite Rabs_R0 in H. generalize (bpow_gt_0 radix2 (j - 1)). lra. }
assert (M : (j <= mag radix2 p)%Z) by (apply mag_ge_bpow; exact H).
assert (S := scaled_mantissa_lt_bpow radix2 (FLT_exp (-149) 24) p).
unfold F32, generic_format, F2R in F. simpl in F.
rewrite scaled_mantissa_generic in S by exact F.
set (m := Ztrunc (scaled_mantissa radix2 (FLT_exp (-149) 24) p)) in *.
set (e := cexp radix2 (FLT_exp (-149) 24) p) in *.
assert (He : (j - 24 <= e /\ mag radix2 p - e <= 24)%Z) by (unfold e, cexp, FLT_exp; lia).
rewrite F, Rmult_assoc, <- bpow_plus. apply F32_dyadic; [|lia].
apply le_IZR. rewrite abs_IZR.
apply Rle_trans with (bpow radix2 (mag radix2 p - e)). lra.
change (IZR (2 ^ 24)) with (bpow radix2 24). apply bpow_le. lia.
Qed.

(** The last step of an exponential: a number p near E/2^b, times 2^(k+b). B is the error
    in ulps of E before it; below 2^-126 the product rounds again. *)
Lemma scaled_error (p E B : R) (b j k : Z) :
  F32 p -> 0 <= B <= 2 ->
  bpow radix2 (j - 1) <= E < bpow radix2 j ->
  bpow radix2 (j - 1) <= p * bpow radix2 b ->
  Rabs (p * bpow radix2 b - E) <= B * bpow radix2 (j - 24) ->
  let y := rnd (p * bpow radix2 (k + b)) in
  let T := E * bpow radix2 k in
  (bpow radix2 (-126) <= T -> Rabs (y - T) <= B * ulp32 T) /\
  (T < bpow radix2 (-126) -> Rabs (y - T) <= (/ 2 + B / 2) * ulp32 T).
Proof.
intros F HB HE Hp Herr y T.
assert (Hk := bpow_gt_0 radix2 k).
assert (HT : bpow radix2 (j + k - 1) <= T < bpow radix2 (j + k)).
{ unfold T. replace (j + k - 1)%Z with (j - 1 + k)%Z by ring. rewrite !bpow_plus.
  split. apply Rmult_le_compat_r; lra. apply Rmult_lt_compat_r; lra. }
assert (D : Rabs (p * bpow radix2 (k + b) - T) <= B * bpow radix2 (j + k - 24)).
{ unfold T. replace (p * bpow radix2 (k + b) - E * bpow radix2 k) with ((p * bpow radix2 b - E) * bpow radix2 k)
    by (rewrite bpow_plus; ring).
  rewrite Rabs_mult, (Rabs_pos_eq (bpow _ k)) by lra.
  replace (j + k - 24)%Z with (j - 24 + k)%Z by ring. rewrite bpow_plus, <- Rmult_assoc.
  apply Rmult_le_compat_r; lra. }
rewrite (ulp32_power T (j + k)) by exact HT.
assert (Hb := bpow_gt_0 radix2 b).
assert (Hpp : bpow radix2 (j - b - 1) <= Rabs p).
{ assert (0 < p). { apply Rmult_lt_reg_r with (bpow radix2 b). exact Hb. generalize (bpow_gt_0 radix2 (j - 1)). lra. }
  rewrite Rabs_pos_eq by lra. apply Rmult_le_reg_r with (bpow radix2 b). exact Hb.
  rewrite <- bpow_plus. replace (j - b - 1 + b)%Z with (j - 1)%Z by ring. exact Hp. }
split; intros HN.
- assert (J : (-125 <= j + k)%Z).
  { assert (-126 < j + k)%Z; [|lia]. apply (lt_bpow radix2). lra. }
  unfold y. rewrite round_generic; auto with typeclass_instances.
  + replace (Z.max (j + k - 24) (-149)) with (j + k - 24)%Z by lia. exact D.
  + apply F32_scale with (j - b)%Z; auto. lia.
- assert (J : (j + k <= -126)%Z).
  { assert (j + k - 1 < -126)%Z; [|lia]. apply (lt_bpow radix2). lra. }
  replace (Z.max (j + k - 24) (-149)) with (-149)%Z by lia.
  assert (P := bpow_gt_0 radix2 (-150)).
  assert (P2 : bpow radix2 (-149) = 2 * bpow radix2 (-150)).
  { change (-149)%Z with (1 + -150)%Z. rewrite bpow_plus. reflexivity. }
  assert (L : B * bpow radix2 (j + k - 24) <= B * bpow radix2 (-150)).
  { apply Rmult_le_compat_l. lra. apply bpow_le. lia. }
  assert (N : Rabs (y - p * bpow radix2 (k + b)) <= bpow radix2 (-125 - 25)).
  { apply rnd_error. lia.
    apply Rabs_le_inv in D. apply Rabs_le.
    assert (bpow radix2 (-126) = 16777216 * bpow radix2 (-150)) by (change (-126)%Z with (24 + -150)%Z; rewrite bpow_plus; reflexivity).
    assert (bpow radix2 (-125) = 33554432 * bpow radix2 (-150)) by (change (-125)%Z with (25 + -150)%Z; rewrite bpow_plus; reflexivity).
    assert (0 <= T). { apply Rle_trans with (2 := proj1 HT). apply bpow_ge_0. }
    nra. }
  change (-125 - 25)%Z with (-150)%Z in N.
  replace (y - T) with ((y - p * bpow radix2 (k + b)) + (p * bpow radix2 (k + b) - T)) by ring.
  apply Rle_trans with (1 := Rabs_triang _ _).
  rewrite P2. lra.
Qed.

(** Powers of two as numbers that interval knows. *)
Ltac powers :=
  repeat match goal with
  | |- context [bpow radix2 ?k] =>
    let k' := eval vm_compute in k in
    lazymatch k' with
    | Zneg ?n => let v := eval vm_compute in (Zpower_pos 2 n) in change (bpow radix2 k) with (/ IZR v)
    | Zpos ?n => let v := eval vm_compute in (Zpower_pos 2 n) in change (bpow radix2 k) with (IZR v)
    | Z0 => change (bpow radix2 k) with 1
    end
  end.
Ltac bound := powers; interval with (i_prec 60).

(** Replaces the innermost rounding of a number of at most 2^k by an error. *)
Ltac rounding k :=
  match goal with |- context [round radix2 (FLT_exp (-149) 24) ZnearestE ?z] =>
    lazymatch z with
    | context [round radix2 (FLT_exp (-149) 24) ZnearestE _] => fail
    | _ => let e := fresh "e" in let E := fresh "E" in let D := fresh "D" in
      destruct (rnd_step k z ltac:(lia) ltac:(bound)) as [e [E D]]; rewrite E; clear E;
      revert D; powers; intros D
    end end.

(** The reduction of the argument of an exponential: x = k*ln 2 + R, where k is x*c rounded to an
    integer, and r is R but for one rounding. hi - lo is ln 2, and hi has 25 bits after the point. *)
Lemma reduce (x c hi lo near : R) (magic kmin kmax units : Z) :
  F32 x -> (Z.abs kmin <= 2 ^ 20)%Z -> (Z.abs kmax <= 2 ^ 20)%Z ->
  hi = IZR (- units) * bpow radix2 (-25) -> near <= 2 / 5 -> 0 < c <= 2 ->
  8388608 <= x * c + IZR magic <= 16777215 ->
  (forall d, Rabs d <= / 2 -> IZR (kmin - 1) < x * c + d < IZR (kmax + 1)) ->
  (forall d, Rabs d <= / 2 -> Rabs (x * (1 - c * ln 2) - d * ln 2) <= near /\ Rabs (x * (1 + c * hi) + d * hi) <= / 2) ->
  (forall k, IZR kmin <= k <= IZR kmax -> Rabs (k * (hi + lo + ln 2)) <= / 35184372088832) ->
  let t := rnd (x * c + IZR magic) in
  let n := rnd (t - IZR magic) in
  let r := rnd (n * lo + rnd (n * hi + x)) in
  exists k : Z, let R := x - IZR k * ln 2 in
  (kmin <= k <= kmax)%Z /\ t = IZR (k + magic) /\
  Rabs R <= near /\ Rabs (r - R) <= / 67108864 + / 35184372088832 /\
  (R < 0 -> r <= / 35184372088832) /\ (0 <= R -> - / 35184372088832 <= r).
Proof.
intros F Hmin Hmax Hhi Hnear Hc Ht Hk Hd Hlo t n r.
destruct (rnd_integer (x * c + IZR magic) Ht) as [K [EK [DK HK]]].
assert (exists k, K = (k + magic)%Z) as [k EK'] by (exists (K - magic)%Z; ring).
exists k. intros R.
assert (Et : t = IZR K) by exact EK.
pose (d := IZR k - x * c).
assert (Dd : Rabs d <= / 2).
{ unfold d. replace (IZR k) with (IZR K - IZR magic) by (rewrite EK', plus_IZR; ring).
  replace (_ - _) with (IZR K - (x * c + IZR magic)) by ring. exact DK. }
assert (Ed : IZR k = x * c + d) by (unfold d; ring).
assert (Ik : (kmin - 1 < k < kmax + 1)%Z).
{ generalize (Hk d Dd). rewrite <- Ed. intros [A B]. split; now apply lt_IZR. }
destruct (Hd d Dd) as [HR H1].
replace (x * (1 - c * ln 2) - d * ln 2) with R in HR by (unfold R; rewrite Ed; ring).
replace (x * (1 + c * hi) + d * hi) with (IZR k * hi + x) in H1 by (rewrite Ed; ring).
assert (En : n = IZR k).
{ unfold n. rewrite Et, EK', plus_IZR. replace (_ - _) with (IZR k * bpow radix2 0) by (simpl; ring).
  rewrite round_generic; auto with typeclass_instances. simpl; ring. apply F32_dyadic; lia. }
assert (E1 : rnd (n * hi + x) = IZR k * hi + x).
{ rewrite En. apply round_generic; auto with typeclass_instances.
  destruct (Z.eq_dec k 0) as [-> | Hnz].
  - replace (0 * hi + x) with x by ring. exact F.
  - destruct (F32_multiple (-2) x F) as [m Hm].
    { assert (1 <= Rabs (IZR k)) by (rewrite <- abs_IZR; apply IZR_le; lia).
      assert (A : Rabs (x * c) >= / 2).
      { replace (x * c) with (IZR k - d) by (unfold d; ring).
        generalize (Rabs_triang_inv (IZR k) d). lra. }
      rewrite Rabs_mult, (Rabs_pos_eq c) in A by lra. powers.
      clear - A Hc. assert (0 <= Rabs x) by apply Rabs_pos. nra. }
    assert (Es : IZR k * hi + x = IZR (m - k * units) * bpow radix2 (-25)).
    { rewrite Hhi, Hm, minus_IZR, mult_IZR, opp_IZR. change (-2 - 23)%Z with (-25)%Z. ring. }
    rewrite Es. apply F32_dyadic; [|lia].
    apply le_IZR. rewrite abs_IZR. rewrite Es, Rabs_mult, (Rabs_pos_eq (bpow _ _)) in H1 by apply bpow_ge_0.
    revert H1. powers. change (IZR (2 ^ 24)) with 16777216. lra. }
pose (z := IZR k * lo + (IZR k * hi + x)).
assert (Er : r = rnd z) by (unfold r, z; now rewrite E1, En).
assert (Hz : Rabs (z - R) <= / 35184372088832).
{ unfold z, R. replace (_ - _) with (IZR k * (hi + lo + ln 2)) by ring.
  apply Hlo. split; apply IZR_le; lia. }
assert (Hz1 : Rabs (rnd z - z) <= / 67108864).
{ replace (/ 67108864) with (bpow radix2 (-1 - 25)) by (powers; reflexivity). apply rnd_error. lia. powers.
  apply Rabs_le_inv in Hz. apply Rabs_le_inv in HR. apply Rabs_le. clear - Hz HR Hnear. lra. }
rewrite Er. apply Rabs_le_inv in Hz. repeat split; try lia; try exact HR.
- rewrite Et. f_equal. exact EK'.
- apply Rabs_le_inv in Hz1. apply Rabs_le. clear - Hz Hz1. lra.
- intros HN. replace (/ 35184372088832) with (bpow radix2 (-45)) by (powers; reflexivity).
  apply round_le_generic; auto with typeclass_instances. apply generic_format_bpow; unfold FLT_exp; lia.
  powers. clear - Hz HN. lra.
- intros HN. replace (/ 35184372088832) with (bpow radix2 (-45)) by (powers; reflexivity).
  apply round_ge_generic; auto with typeclass_instances. apply generic_format_opp, generic_format_bpow; unfold FLT_exp; lia.
  powers. clear - Hz HN. lra.
Qed.

Lemma scaled_at_least (p : R) (b j : Z) : bpow radix2 (j - 1) <= p * bpow radix2 b -> bpow radix2 (j - b - 1) <= Rabs p.
Proof.
intros H. assert (Hb := bpow_gt_0 radix2 b).
assert (0 < p). { apply Rmult_lt_reg_r with (bpow radix2 b). exact Hb. generalize (bpow_gt_0 radix2 (j - 1)). lra. }
rewrite Rabs_pos_eq by lra. apply Rmult_le_reg_r with (bpow radix2 b). exact Hb.
rewrite <- bpow_plus. replace (j - b - 1 + b)%Z with (j - 1)%Z by ring. exact H.
Qed.

Lemma scaled_near (p E : R) (b j k : Z) : bpow radix2 (j - 1) <= E -> Rabs (p * bpow radix2 b - E) <= 2 * bpow radix2 (j - 24) ->
  Rabs (p * bpow radix2 (k + b) - E * bpow radix2 k) <= E * bpow radix2 k * / 1048576.
Proof.
intros H D. assert (Hk := bpow_gt_0 radix2 k).
replace (p * bpow radix2 (k + b) - E * bpow radix2 k) with ((p * bpow radix2 b - E) * bpow radix2 k) by (rewrite bpow_plus; ring).
rewrite Rabs_mult, (Rabs_pos_eq (bpow _ k)) by lra.
replace (E * bpow radix2 k * / 1048576) with (E * / 1048576 * bpow radix2 k) by ring.
apply Rmult_le_compat_r. lra. apply Rle_trans with (1 := D).
assert (P : bpow radix2 (j - 1) = 8388608 * bpow radix2 (j - 24)).
{ replace (j - 1)%Z with (23 + (j - 24))%Z by ring. rewrite bpow_plus. reflexivity. }
assert (0 < bpow radix2 (j - 24)) by apply bpow_gt_0. lra.
Qed.

(** Below half the least number, the result is 0. *)
Lemma rnd_zero (z : R) : Rabs z < bpow radix2 (-150) -> rnd z = 0.
Proof.
intros H. assert (F : F32 (rnd z)) by (apply generic_format_round; auto with typeclass_instances).
assert (N := rnd_near z 0 (generic_format_0 _ _)). rewrite Rminus_0_l, Rabs_Ropp in N.
assert (L : Rabs (rnd z) < bpow radix2 (-149)).
{ replace (bpow radix2 (-149)) with (2 * bpow radix2 (-150)) by (change (-149)%Z with (1 + -150)%Z; rewrite bpow_plus; reflexivity).
  replace (rnd z) with ((rnd z - z) + z) by ring. generalize (Rabs_triang (rnd z - z) z). lra. }
destruct (Req_dec (rnd z) 0) as [E | E]. exact E.
exfalso. revert L. apply Rle_not_lt.
unfold F32, generic_format, F2R in F. simpl in F.
set (m := Ztrunc (scaled_mantissa radix2 (FLT_exp (-149) 24) (rnd z))) in F.
set (c := cexp radix2 (FLT_exp (-149) 24) (rnd z)) in F.
assert (m <> 0%Z) by (intros M; apply E; rewrite F, M; ring).
rewrite F, Rabs_mult, (Rabs_pos_eq (bpow _ _)), <- abs_IZR by apply bpow_ge_0.
apply Rle_trans with (bpow radix2 c). apply bpow_le. unfold c, cexp, FLT_exp. lia.
rewrite <- (Rmult_1_l (bpow radix2 c)) at 1. apply Rmult_le_compat_r. apply bpow_ge_0. apply IZR_le. lia.
Qed.

(** No ulp is less than 2^-149. *)
Lemma ulp32_least (z : R) : bpow radix2 (-149) <= ulp32 z.
Proof.
unfold ulp32. destruct (Req_dec z 0) as [-> | N].
- rewrite ulp_FLT_0 by reflexivity. apply Rle_refl.
- rewrite ulp_neq_0 by exact N. apply bpow_le. unfold cexp, FLT_exp. lia.
Qed.

(** The reduction of the argument of a power of two: x = k + r, exactly. *)
Lemma reduce_integer (x : R) (magic kmin kmax : Z) :
  F32 x -> (Z.abs kmin <= 2 ^ 20)%Z -> (Z.abs kmax <= 2 ^ 20)%Z -> IZR kmin <= x <= IZR kmax ->
  8388608 <= x + IZR magic <= 16777215 ->
  let t := rnd (x + IZR magic) in
  let r := rnd (x - rnd (t - IZR magic)) in
  exists k : Z, (kmin <= k <= kmax)%Z /\ t = IZR (k + magic) /\ r = x - IZR k /\ Rabs r <= / 2.
Proof.
intros F Hmin Hmax Hx Ht t r.
destruct (rnd_integer (x + IZR magic) Ht) as [K [EK [DK HK]]].
assert (exists k, K = (k + magic)%Z) as [k EK'] by (exists (K - magic)%Z; ring).
exists k. rewrite EK', plus_IZR in DK.
replace (IZR k + IZR magic - (x + IZR magic)) with (IZR k - x) in DK by ring.
assert (Et : t = IZR K) by exact EK.
assert (D := DK). apply Rabs_le_inv in D.
assert (Ik : (kmin - 1 < k < kmax + 1)%Z).
{ split; apply lt_IZR; [rewrite minus_IZR | rewrite plus_IZR]; lra. }
assert (En : rnd (t - IZR magic) = IZR k).
{ rewrite Et, EK', plus_IZR. replace (_ - _) with (IZR k * bpow radix2 0) by (simpl; ring).
  rewrite round_generic; auto with typeclass_instances. simpl; ring. apply F32_dyadic; lia. }
assert (Er : r = x - IZR k).
{ unfold r. rewrite En. apply round_generic; auto with typeclass_instances.
  destruct (Z.eq_dec k 0) as [-> | Hnz].
  - replace (x - 0) with x by ring. exact F.
  - destruct (F32_multiple (-1) x F) as [m Hm].
    { assert (1 <= Rabs (IZR k)) by (rewrite <- abs_IZR; apply IZR_le; lia).
      generalize (Rabs_triang_inv (IZR k) (IZR k - x)). replace (IZR k - (IZR k - x)) with x by ring. powers. lra. }
    assert (Es : x - IZR k = IZR (m - k * 16777216) * bpow radix2 (-24)).
    { rewrite Hm, minus_IZR, mult_IZR. change (-1 - 23)%Z with (-24)%Z. powers. field. }
    rewrite Es. apply F32_dyadic; [|lia].
    apply le_IZR. rewrite abs_IZR. rewrite Rabs_minus_sym, Es, Rabs_mult, (Rabs_pos_eq (bpow _ _)) in DK by apply bpow_ge_0.
    revert DK. powers. change (IZR (2 ^ 24)) with 16777216. lra. }
repeat split; try lia.
- rewrite Et. f_equal. exact EK'.
- exact Er.
- rewrite Er, Rabs_minus_sym. exact DK.
Qed.
