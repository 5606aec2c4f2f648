(** * Binary32, with subnormal numbers

    The numbers of binary32, as far as they are finite, are m·2^e with |m| < 2^24 and e >= -149. Results are rounded
    to the nearest of them, ties to the even one; how large a number may be is not part of this file (Gemm.v has
    IEEE's numbers with their overflow). Binary64 is the same with 53 and -1074.

    Speaks of: no definition alone: the arithmetic of all definitions, and of the bounds. *)

From Coq Require Import Reals Lra Psatz ZArith.
From Flocq Require Import Core Relative Plus_error.
From Tokitai Require Import Sum.
Local Open Scope R_scope.

Section Format.
Variables emin prec : Z.
Context {prec_gt_0 : Prec_gt_0 prec}.

(** The numbers of a format, and rounding to it. *)
Definition in_format (x : R) : Prop := generic_format radix2 (FLT_exp emin prec) x.
Definition nearest (x : R) : R := round radix2 (FLT_exp emin prec) ZnearestE x.

Lemma nearest_in_format x : in_format (nearest x).
Proof. apply generic_format_round; typeclasses eauto. Qed.

Lemma nearest_is_nearest x y : in_format y -> Rabs (nearest x - x) <= Rabs (y - x).
Proof.
  intros H. apply (round_N_pt radix2 (FLT_exp emin prec) _ x). exact H.
Qed.

(** Half a unit in the last place: relative to the result among the normal numbers, absolute among the subnormal
    ones. *)
Lemma nearest_error x :
  Rabs (nearest x - x) <= Rmax (bpow radix2 (- prec) * Rabs x) (bpow radix2 (emin - 1)).
Proof.
  assert (P : (0 < prec)%Z) by apply prec_gt_0.
  destruct (Rle_or_lt (bpow radix2 (emin + prec - 1)) (Rabs x)) as [H|H].
  - eapply Rle_trans; [|apply Rmax_l].
    eapply Rle_trans; [apply relative_error_N_FLT; [exact P|exact H]|].
    apply Rmult_le_compat_r; [apply Rabs_pos|].
    rewrite bpow_plus. change (bpow radix2 1) with 2. lra.
  - eapply Rle_trans; [|apply Rmax_r].
    eapply Rle_trans; [apply error_le_half_ulp; typeclasses eauto|].
    rewrite ulp_FLT_small; [|exact prec_gt_0|].
    + replace emin with (1 + (emin - 1))%Z at 1 by ring. rewrite bpow_plus.
      change (bpow radix2 1) with 2. lra.
    + eapply Rlt_le_trans; [exact H|]. apply bpow_le. lia.
Qed.

Lemma addition_error x y : in_format x -> in_format y ->
  Rabs (nearest (x + y) - (x + y)) <= bpow radix2 (- prec) * Rabs (x + y).
Proof.
  intros Hx Hy.
  destruct (FLT_plus_error_N_ex radix2 emin prec (fun n => negb (Z.even n)) x y Hx Hy) as [e [E H]].
  unfold nearest. rewrite H.
  replace ((x + y) * (1 + e) - (x + y)) with (e * (x + y)) by ring.
  rewrite Rabs_mult. apply Rmult_le_compat_r; [apply Rabs_pos|].
  eapply Rle_trans; [exact E|].
  unfold u_ro. rewrite bpow_plus. change (bpow radix2 1) with 2.
  pose proof (bpow_gt_0 radix2 (- prec)). set (v := bpow radix2 (- prec)) in *.
  apply Rmult_le_reg_r with (1 + / 2 * (v * 2)); [lra|].
  unfold Rdiv. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra. nra.
Qed.

Lemma format_addition :
  rounded_addition in_format (fun x y => nearest (x + y)) (bpow radix2 (- prec)).
Proof.
  assert (P : (0 < prec)%Z) by apply prec_gt_0.
  split.
  - apply bpow_ge_0.
  - change 1 with (bpow radix2 0). apply bpow_le. lia.
  - intros. apply nearest_in_format.
  - apply addition_error.
  - intros x y Hx Hy. eapply Rle_trans; [apply (nearest_is_nearest _ y Hy)|].
    right. rewrite <- Rabs_Ropp. f_equal. ring.
  - intros x y Hx Hy. eapply Rle_trans; [apply (nearest_is_nearest _ x Hx)|].
    right. rewrite <- Rabs_Ropp. f_equal. ring.
Qed.
End Format.

(** The constants of package bound: u is bound.U, eta is bound.Tiny. *)
Definition u : R := bpow radix2 (-24).
Definition eta : R := bpow radix2 (-150).

Definition binary32 : R -> Prop := in_format (-149) 24.
Definition round32 : R -> R := nearest (-149) 24.

#[export] Instance binary32_has_a_precision : Prec_gt_0 24 := eq_refl.
#[export] Instance binary64_has_a_precision : Prec_gt_0 53 := eq_refl.

(** Rounding to binary32 is off by at most u of the exact value, or by eta.

    Rests on it: truth.rounding; bound.U; bound.Tiny. *)
Theorem rounding_error x : Rabs (round32 x - x) <= Rmax (u * Rabs x) eta.
Proof. exact (nearest_error (-149) 24 x). Qed.

(** The addition of binary32 never underflows: it is off by at most u of the exact sum, and it is a rounded addition
    in the sense of Sum.v.

    Rests on it: truth.rounding. *)
Theorem binary32_addition : rounded_addition binary32 (fun x y => round32 (x + y)) u.
Proof. exact (format_addition (-149) 24). Qed.

(** The same of binary64, with u = 2^-53.

    Rests on it: truth.bounded; num/exact.Float64. *)
Theorem binary64_addition :
  rounded_addition (in_format (-1074) 53) (fun x y => nearest (-1074) 53 (x + y)) (bpow radix2 (-53)).
Proof. exact (format_addition (-1074) 53). Qed.

Lemma u_pos : 0 < u. Proof. apply bpow_gt_0. Qed.
Lemma eta_pos : 0 < eta. Proof. apply bpow_gt_0. Qed.
Lemma u_small : u <= / 16777216.
Proof. unfold u. simpl. lra. Qed.
