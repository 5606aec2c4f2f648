(** * sigmoid

    The largest error of the function sigmoid in ulps, from its nodes and from what is proved about the exponential and the
    reciprocal in it. Written by tokitai prove sigmoid --emit; do not edit. *)

From Coq Require Import Reals ZArith Lia Lra.
From Flocq Require Import Core.
From Interval Require Import Tactic.
From Tokitai Require Import functions.Binary32 functions.Patterns.
From Tokitai Require functions.exp_nonpositive functions.recip_bounded.
Open Scope R_scope.

(* function sigmoid(x): sigmoid within 2.8 ulp for every x
  t1 = lesseq(0, x)
  t2 = abs(x)
  t3 = neg(t2)
  t4 = less(t3, -104)
  xc = select(t4, -104, t3)
  t = fma(xc, 0x1.715476p+00, 1.2583103e+07)
  n = sub(t, 1.2583103e+07)
  t5 = fma(n, -0x1.62e43p-01, xc)
  r = fma(n, 0x1.05c61p-29, t5)
  t6 = fma(0x1.6a3d0ap-74, r, 0x1.123856p-71)
  t7 = fma(t6, r, 0x1.5558bep-69)
  t8 = fma(t7, r, 0x1.555494p-67)
  t9 = fma(t8, r, 0x1.fffffcp-66)
  t10 = fma(t9, r, 0x1p-64)
  p = fma(t10, r, 0x1p-64)
  t11 = bits(t)
  t12 = shl(t11, 23i)
  s = float(t12)
  e = mul(p, s)
  t13 = add(1, e)
  t14 = bits(t13)
  t15 = isub(0x7ef3340c, t14)
  g0 = float(t15)
  gu = fma(t13, g0, -0x1.803fp+00)
  t16 = fma(gu, gu, 0x1.7f821p-01)
  g1 = mul(g0, t16)
  t17 = neg(t13)
  gap = fma(t17, g1, 1)
  y = fma(g1, gap, g1)
  t18 = mul(e, y)
  t19 = select(t1, y, t18)
  return t19
*)
Section Nodes.
Variable x : R.
Definition t1 := Rle_bool 0 x.
Definition t2 := Rabs x.
Definition t3 := - t2.
Definition t4 := Rlt_bool t3 (-104).
Definition xc := if t4 then (-104) else t3.
Definition t := rnd (xc * (12102203 / 8388608) + 12583103).
Definition n := rnd (t - 12583103).
Definition t5 := rnd (n * (-1453635 / 2097152) + xc).
Definition r := rnd (n * (1072225 / 562949953421312) + t5).
Definition t6 := rnd ((11869829 / 158456325028528675187087900672) * r + (8985643 / 19807040628566084398385987584)).
Definition t7 := rnd (t6 * r + (11185247 / 4951760157141521099596496896)).
Definition t8 := rnd (t7 * r + (5592357 / 618970019642690137449562112)).
Definition t9 := rnd (t8 * r + (8388607 / 309485009821345068724781056)).
Definition t10 := rnd (t9 * r + (1 / 18446744073709551616)).
Definition p := rnd (t10 * r + (1 / 18446744073709551616)).
Definition t11 := bits t.
Definition t12 := shl t11 (23)%Z.
Definition s := float t12.
Definition e := rnd (p * s).
Definition t13 := rnd (1 + e).
Definition t14 := bits t13.
Definition t15 := isub (2129867788)%Z t14.
Definition g0 := float t15.
Definition gu := rnd (t13 * g0 + (-98367 / 65536)).
Definition t16 := rnd (gu * gu + (1570849 / 2097152)).
Definition g1 := rnd (g0 * t16).
Definition t17 := - t13.
Definition gap := rnd (t17 * g1 + 1).
Definition y := rnd (g1 * gap + g1).
Definition t18 := rnd (e * y).
Definition t19 := if t1 then y else t18.
Definition sigmoid_f32 := t19.
End Nodes.

(** The nodes are those of the two functions, to the last constant. *)
Lemma exponential : forall x, e x = exp_nonpositive.exp_nonpositive_f32 (- Rabs x).
Proof. reflexivity. Qed.
Lemma reciprocal : forall x, y x = recip_bounded.recip_bounded_f32 (rnd (1 + e x)).
Proof. reflexivity. Qed.

(** The exponential of -|x|. *)
Lemma e_near : forall x, F32 x -> let E := exp (- Rabs x) in
  (bpow radix2 (-126) <= E -> Rabs (e x - E) <= 0.925 * ulp32 E) /\ (E < bpow radix2 (-126) -> Rabs (e x - E) <= 0.9625 * ulp32 E).
Proof.
intros x F E. rewrite exponential.
destruct (exp_nonpositive.exp_nonpositive_ulps (- Rabs x)) as [A [B _]].
- apply generic_format_opp. now apply generic_format_abs.
- generalize (Rabs_pos x). lra.
- now split.
Qed.

Lemma e_error : forall x, F32 x -> let E := exp (- Rabs x) in
  Rabs (e x - E) <= 1.85 * / 16777216 * E + / 1000000000000000000000000000000 /\
  (x <> 0 -> Rabs (e x - E) <= 0.925 * / 16777216 + / 1000000000000000000000000000000) /\
  (bpow radix2 (-126) <= E -> Rabs (e x - E) <= 1.85 * / 16777216 * E) /\
  (E < bpow radix2 (-126) -> Rabs (e x - E) <= 0.9625 * bpow radix2 (-149)).
Proof.
intros x F E. destruct (e_near x F) as [A B]. fold E in A, B.
assert (P : 0 < E) by apply exp_pos.
assert (C : bpow radix2 (-126) <= E -> Rabs (e x - E) <= 1.85 * / 16777216 * E).
{ intros H. apply Rle_trans with (1 := A H). assert (U := ulp_FLT_le radix2 (-149) 24 E).
  rewrite Rabs_pos_eq in U by lra. specialize (U H). change (bpow radix2 (1 - 24)) with (/ 8388608) in U. unfold ulp32. lra. }
assert (D : E < bpow radix2 (-126) -> Rabs (e x - E) <= 0.9625 * bpow radix2 (-149)).
{ intros H. apply Rle_trans with (1 := B H). apply Rmult_le_compat_l. lra.
  unfold ulp32. rewrite ulp_FLT_small. apply Rle_refl. reflexivity. rewrite Rabs_pos_eq by lra.
  apply Rlt_trans with (1 := H). apply bpow_lt. lia. }
split; [|split; [|split; assumption]].
- destruct (Rle_lt_dec (bpow radix2 (-126)) E) as [H | H]. generalize (C H); lra.
  generalize (D H). powers. lra.
- intros N. assert (E < 1).
  { unfold E. rewrite <- exp_0. apply exp_increasing. generalize (Rabs_pos_lt x N). lra. }
  destruct (Rle_lt_dec (bpow radix2 (-126)) E) as [H' | H'].
  + apply Rle_trans with (0.925 * / 16777216); [|lra]. apply Rle_trans with (1 := A H'). apply Rmult_le_compat_l. lra.
    unfold ulp32. rewrite ulp_neq_0 by lra. change (/ 16777216) with (bpow radix2 (-24)). apply bpow_le. unfold cexp, FLT_exp.
    assert (mag radix2 E <= 0)%Z; [|lia]. apply mag_le_bpow. lra. rewrite Rabs_pos_eq by lra. exact H.
  + generalize (D H'). powers. lra.
Qed.

(** The sum 1 + e. *)
Lemma sum_near : forall x, F32 x -> let E := exp (- Rabs x) in exists c, rnd (1 + e x) = 1 + E + c /\
  (x <> 0 -> Rabs c <= / 16777216 * (1 + 0.925) + / 500000000000000000000000000000) /\
  (x <> 0 -> Rabs c <= / 16777216 * (1 + 1.85 * E) + / 500000000000000000000000000000) /\
  Rabs c <= / 16777216 * 3.86.
Proof.
intros x F E. destruct (e_error x F) as [A [B _]]. fold E in A, B.
assert (P : 0 < E <= 1).
{ unfold E. split. apply exp_pos. rewrite <- exp_0. destruct (Req_dec x 0) as [-> | N]. rewrite Rabs_R0, Ropp_0. lra.
  left. apply exp_increasing. generalize (Rabs_pos_lt x N). lra. }
assert (F2 : F32 2) by (replace 2 with (IZR 1 * bpow radix2 1) by (simpl; lra); apply F32_dyadic; lia).
assert (A' := A). apply Rabs_le_inv in A'.
exists (rnd (1 + e x) - (1 + E)). split. ring.
replace (rnd (1 + e x) - (1 + E)) with ((rnd (1 + e x) - (1 + e x)) + (e x - E)) by ring.
assert (R2 : Rabs (rnd (1 + e x) - (1 + e x)) <= / 8388608).
{ replace (/ 8388608) with (bpow radix2 (2 - 25)) by (powers; reflexivity). apply rnd_error. lia. powers. apply Rabs_le. lra. }
assert (R1 : x <> 0 -> Rabs (rnd (1 + e x) - (1 + e x)) <= / 16777216).
{ intros N. specialize (B N). apply Rabs_le_inv in B.
  destruct (Rle_lt_dec (1 + e x) 2) as [L | L].
  - replace (/ 16777216) with (bpow radix2 (1 - 25)) by (powers; reflexivity). apply rnd_error. lia. powers. apply Rabs_le. lra.
  - apply Rle_trans with (1 := rnd_near _ _ F2). apply Rabs_le. lra. }
split; [|split].
- intros N. apply Rle_trans with (1 := Rabs_triang _ _). specialize (R1 N). specialize (B N). lra.
- intros N. apply Rle_trans with (1 := Rabs_triang _ _). specialize (R1 N). lra.
- apply Rle_trans with (1 := Rabs_triang _ _). lra.
Qed.

(** The reciprocal of it: a relative error, for x other than 0, and an absolute one for 0. *)
Lemma y_near : forall x, F32 x -> let E := exp (- Rabs x) in exists d, y x = / (1 + E) * (1 + d) /\
  (x <> 0 -> Rabs d <= 2.0625 * / 16777216) /\ (x = 0 -> Rabs d <= 3 * / 16777216).
Proof.
intros x F E. destruct (sum_near x F) as [c [Ec [B1 [B2 B3]]]]. fold E in Ec, B1, B2.
assert (P : 0 < E <= 1).
{ unfold E. split. apply exp_pos. rewrite <- exp_0. destruct (Req_dec x 0) as [-> | N]. rewrite Rabs_R0, Ropp_0. lra.
  left. apply exp_increasing. generalize (Rabs_pos_lt x N). lra. }
rewrite reciprocal.
assert (Fd : F32 (rnd (1 + e x))) by (apply generic_format_round; auto with typeclass_instances).
assert (c' := B3). apply Rabs_le_inv in c'.
assert (D1 : 1 <= rnd (1 + e x) \/ rnd (1 + e x) < 1) by lra.
assert (Y := recip_bounded.recip_bounded_ulps (rnd (1 + e x)) Fd).
revert Y D1. rewrite Ec. intros Y D1.
assert (HY : Rabs (recip_bounded.recip_bounded_f32 (1 + E + c) - / (1 + E + c)) <= 0.5185 * ulp32 (/ (1 + E + c))).
{ apply Y. rewrite Rabs_pos_eq by lra. powers. lra. }
clear Y. revert HY. generalize (recip_bounded.recip_bounded_f32 (1 + E + c)). intros y HY.
assert (I0 : 0 < / (1 + E + c)) by (apply Rinv_0_lt_compat; lra).
exists (y * (1 + E) - 1). split. field; lra.
assert (U1 : ulp32 (/ (1 + E + c)) <= / (1 + E + c) * / 8388608).
{ unfold ulp32. assert (U := ulp_FLT_le radix2 (-149) 24 (/ (1 + E + c))). rewrite Rabs_pos_eq in U by lra. apply U.
  apply Rle_trans with (/ 4). powers. lra. apply Rinv_le_contravar; lra. }
assert (exists h, y = / (1 + E + c) + h /\ Rabs h <= 0.5185 * ulp32 (/ (1 + E + c))) as [h [-> Hh]] by (exists (y - / (1 + E + c)); split; [ring | exact HY]).
clear HY.
replace ((/ (1 + E + c) + h) * (1 + E) - 1) with (h * (1 + E) - c / (1 + E + c)) by (field; lra).
assert (exists k, h = / (1 + E + c) * (k * / 8388608) /\ Rabs k <= 0.5185) as [k [Ek Hk]].
{ exists (h * (1 + E + c) * 8388608). split. field; lra.
  rewrite !Rabs_mult, (Rabs_pos_eq (1 + E + c)), (Rabs_pos_eq 8388608) by lra.
  apply Rle_trans with (0.5185 * (/ (1 + E + c) * / 8388608) * (1 + E + c) * 8388608).
  - apply Rmult_le_compat_r. lra. apply Rmult_le_compat_r. lra. lra.
  - right. field. lra. }
split.
- intros N. specialize (B1 N). specialize (B2 N).
  destruct (Rle_lt_dec E (/ 1048576)) as [S | S].
  + rewrite Ek. clear - P S B2 Hk.
    assert (Rabs c <= / 16777216 * 1.00001) by (apply Rle_trans with (1 := B2); lra). clear B2.
    interval with (i_prec 80).
  + assert (U2 : ulp32 (/ (1 + E + c)) <= / 16777216).
    { unfold ulp32. rewrite ulp_neq_0 by lra. change (/ 16777216) with (bpow radix2 (-24)). apply bpow_le. unfold cexp, FLT_exp.
      assert (mag radix2 (/ (1 + E + c)) <= 0)%Z; [|lia]. apply mag_le_bpow. lra. rewrite Rabs_pos_eq by lra. simpl.
      rewrite <- Rinv_1. apply Rinv_lt_contravar; lra. }
    assert (Hh' : Rabs h <= 0.5185 * / 16777216) by lra. clear - P S B1 B2 Hh'.
    assert (exists s, c = / 16777216 * s) as [s ->] by (exists (c * 16777216); field).
    rewrite Rabs_mult, (Rabs_pos_eq (/ 16777216)) in B1, B2 by lra.
    assert (T1 : Rabs s <= 1 + 0.925 + / 1000000000000) by lra.
    assert (T2 : Rabs s <= 1 + 1.85 * E + / 1000000000000) by lra. clear B1 B2.
    destruct (Rle_lt_dec E 0.5) as [S' | S'].
    * assert (exists t, s = (1 + 1.85 * E + / 1000000000000) * t /\ Rabs t <= 1) as [t [-> Ht]].
      { exists (s / (1 + 1.85 * E + / 1000000000000)). split. field; lra.
        unfold Rdiv. rewrite Rabs_mult, (Rabs_pos_eq (/ _)) by (left; apply Rinv_0_lt_compat; lra).
        apply Rmult_le_reg_r with (1 + 1.85 * E + / 1000000000000). lra.
        rewrite Rmult_assoc, Rinv_l by lra. lra. }
      clear T1 T2. interval with (i_bisect E, i_prec 80, i_depth 20).
    * clear T2. assert (PE : 0.5 <= E <= 1) by lra. clear P S S'. interval with (i_bisect E, i_prec 80, i_depth 20).
- intros Z. assert (E1 : E = 1) by (unfold E; rewrite Z, Rabs_R0, Ropp_0; apply exp_0). rewrite Ek, E1. clear - B3 Hk. interval with (i_prec 80).
Qed.

(** For every binary32 x, sigmoid is within 2.07 ulp of 1/(1 + exp(-x)) if x is not negative, and within 4.92 ulp if it is.

    Speaks of: sigmoid bd58170f2d8b41808e8db9483d5ec24c918c08549856f9ace7fc5d249a913de3

    Rests on it: fn.SigmoidFunction. *)
Theorem sigmoid_ulps : forall x, F32 x ->
  (0 <= x -> Rabs (sigmoid_f32 x - / (1 + exp (- x))) <= 2.07 * ulp32 (/ (1 + exp (- x)))) /\
  (x < 0 -> Rabs (sigmoid_f32 x - / (1 + exp (- x))) <= 4.92 * ulp32 (/ (1 + exp (- x)))).
Proof.
intros x F. destruct (y_near x F) as [d [Ey [Hd Hd0]]]. destruct (e_error x F) as [_ [_ [A1 A2]]]. revert Ey A1 A2.
set (E := exp (- Rabs x)). intros Ey A1 A2. assert (P : 0 < E) by apply exp_pos.
assert (I : 0 < / (1 + E)) by (apply Rinv_0_lt_compat; lra).
unfold sigmoid_f32, t19, t1. split; intros H.
- rewrite Rle_bool_true by exact H.
  assert (EE : exp (- x) = E) by (unfold E; now rewrite Rabs_pos_eq). rewrite EE, Ey.
  replace (/ (1 + E) * (1 + d) - / (1 + E)) with (/ (1 + E) * d) by ring. rewrite Rabs_mult, (Rabs_pos_eq (/ (1 + E))) by lra.
  destruct (Req_dec x 0) as [Z | N].
  + assert (E1 : E = 1) by (unfold E; rewrite Z, Rabs_R0, Ropp_0; apply exp_0). rewrite E1.
    assert (U := ulp32_ge (-1) (/ (1 + 1))). rewrite Rabs_pos_eq in U by lra. change (bpow radix2 (-1)) with (/ 2) in U.
    change (bpow radix2 (-1 - 23)) with (/ 16777216) in U. specialize (U ltac:(lra)). specialize (Hd0 Z). lra.
  + specialize (Hd N). assert (U := ulp32_at_least (/ (1 + E))). rewrite Rabs_pos_eq in U by lra.
    apply Rle_trans with (2.07 * (/ (1 + E) * / 16777216)); [|lra].
    apply Rle_trans with (/ (1 + E) * (2.0625 * / 16777216)); [apply Rmult_le_compat_l; lra|lra].
- rewrite Rle_bool_false by exact H. unfold t18. rewrite Ey.
  assert (EE : / (1 + exp (- x)) = E * / (1 + E)).
  { unfold E. rewrite Rabs_left by exact H. rewrite Ropp_involutive.
    assert (Q : exp (- x) = / exp x) by (rewrite exp_Ropp; reflexivity). rewrite Q.
    assert (0 < exp x) by apply exp_pos. field. lra. }
  rewrite EE. specialize (Hd ltac:(lra)). clear Hd0.
  set (T := E * / (1 + E)). assert (PT : 0 < T) by (unfold T; now apply Rmult_lt_0_compat).
  assert (UT := ulp32_at_least T). rewrite Rabs_pos_eq in UT by lra. assert (U0 := ulp32_least T).
  assert (HE : E <= 1). { unfold E. rewrite <- exp_0. left. apply exp_increasing. generalize (Rabs_pos_lt x ltac:(lra)). lra. }
  assert (IS : / (1 + E) <= 1) by (rewrite <- Rinv_1; apply Rinv_le_contravar; lra).
  assert (TE : T <= E) by (unfold T; apply Rle_trans with (E * 1); [apply Rmult_le_compat_l; lra | lra]).
  set (a := e x - E) in *. replace (e x) with (E + a) by (unfold a; ring).
  assert (Hd' := Hd). apply Rabs_le_inv in Hd'.
  assert (V : (E + a) * (/ (1 + E) * (1 + d)) - T = T * d + a * (/ (1 + E) * (1 + d))) by (unfold T; ring).
  assert (VT : Rabs (T * d) <= T * (2.0625 * / 16777216)).
  { rewrite Rabs_mult, (Rabs_pos_eq T) by lra. apply Rmult_le_compat_l; lra. }
  assert (VA : Rabs (a * (/ (1 + E) * (1 + d))) <= Rabs a * / (1 + E) * 1.000001).
  { rewrite !Rabs_mult, (Rabs_pos_eq (/ (1 + E))), <- Rmult_assoc by lra. apply Rmult_le_compat_l.
    apply Rmult_le_pos. apply Rabs_pos. lra. apply Rabs_le. lra. }
  set (Y := (E + a) * (/ (1 + E) * (1 + d))) in *.
  replace (rnd Y - T) with ((rnd Y - Y) + (Y - T)) by ring. apply Rle_trans with (1 := Rabs_triang _ _).
  destruct (Rle_lt_dec (bpow radix2 (-126)) E) as [N | N].
  + specialize (A1 N).
    assert (VA' : Rabs a * / (1 + E) <= 1.85 * / 16777216 * T).
    { unfold T. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; lra. }
    assert (D : Rabs (Y - T) <= 3.9126 * / 16777216 * T).
    { rewrite V. apply Rle_trans with (1 := Rabs_triang _ _). lra. }
    assert (DY : Rabs Y <= 1.000001 * T).
    { replace Y with ((Y - T) + T) by ring. apply Rle_trans with (1 := Rabs_triang _ _). rewrite (Rabs_pos_eq T) by lra. lra. }
    destruct (Rle_lt_dec (bpow radix2 (-126)) (Rabs Y)) as [B | B].
    * destruct (rnd_normal Y B) as [k [Ek Hk]].
      assert (Rabs (rnd Y - Y) <= / 16777216 * Rabs Y).
      { rewrite Ek. replace (Y * (1 + k) - Y) with (k * Y) by ring. rewrite Rabs_mult. apply Rmult_le_compat_r. apply Rabs_pos. exact Hk. }
      apply Rle_trans with (4.92 * (T * / 16777216)); lra.
    * assert (R : Rabs (rnd Y - Y) <= bpow radix2 (-125 - 25)).
      { apply rnd_error. lia. apply Rle_trans with (bpow radix2 (-126)). lra. apply bpow_le. lia. }
      assert (bpow radix2 (-149) = 2 * bpow radix2 (-125 - 25)) by (change (-149)%Z with (1 + (-125 - 25))%Z; rewrite bpow_plus; reflexivity).
      assert (3.9126 * / 16777216 * T <= 3.9126 * ulp32 T) by lra. lra.
  + specialize (A2 N). clear A1.
    assert (B0 : bpow radix2 (-149) = 2 * bpow radix2 (-150)) by (change (-149)%Z with (1 + -150)%Z; rewrite bpow_plus; reflexivity).
    assert (B1 : bpow radix2 (-126) = 16777216 * bpow radix2 (-150)) by (change (-126)%Z with (24 + -150)%Z; rewrite bpow_plus; reflexivity).
    assert (B2 : bpow radix2 (-125) = 33554432 * bpow radix2 (-150)) by (change (-125)%Z with (25 + -150)%Z; rewrite bpow_plus; reflexivity).
    assert (Q := bpow_gt_0 radix2 (-150)).
    assert (VA' : Rabs a * / (1 + E) <= Rabs a) by (rewrite <- (Rmult_1_r (Rabs a)) at 2; apply Rmult_le_compat_l; [apply Rabs_pos | exact IS]).
    assert (D : Rabs (Y - T) <= 2.1 * ulp32 T).
    { rewrite V. apply Rle_trans with (1 := Rabs_triang _ _). lra. }
    assert (D' : Rabs (Y - T) <= 8 * bpow radix2 (-150)).
    { rewrite V. apply Rle_trans with (1 := Rabs_triang _ _). lra. }
    assert (R : Rabs (rnd Y - Y) <= bpow radix2 (-125 - 25)).
    { apply rnd_error. lia. rewrite B2. apply Rabs_le_inv in D'. apply Rabs_le. lra. }
    change (-125 - 25)%Z with (-150)%Z in R. lra.
Qed.
