//! A primality test that is exact for 64-bit numbers, and the two rules that choose q.
//!
//! The deployment rule takes the largest prime below 2^b, with the smallest b for which that prime
//! exceeds the bound. A field element then has b bits, and sampling rejects almost nothing. The
//! paper's rule takes the smallest prime above the bound.

use crate::field::ModulusRule;

/// Maximum bits of q. Sums of two field elements and balanced limbs then fit into 64 bits.
pub(crate) const MAX_BITS: u32 = 62;

/// Miller–Rabin test with the first twelve primes as bases. It is exact below 3.3·10^24 (Sorenson
/// and Webster, 2015).
pub(crate) fn is_prime(n: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 {
        return false;
    }
    if let Some(&p) = BASES.iter().find(|&&p| n.is_multiple_of(p)) {
        return n == p;
    }
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    BASES.iter().all(|&base| {
        let mut power = pow_mod(base, odd, n);
        if power == 1 || power == n - 1 {
            return true;
        }
        (1..twos).any(|_| {
            power = mul_mod(power, power, n);
            power == n - 1
        })
    })
}

/// The q that `rule` gives for `bound`, or `None` if it would have more than [`MAX_BITS`] bits.
pub(crate) fn choose(bound: u128, rule: ModulusRule) -> Option<u64> {
    let bound = u64::try_from(bound).ok()?;
    let limit = 1u64 << MAX_BITS;
    match rule {
        ModulusRule::Deployment => (2..=MAX_BITS).find_map(|bits| largest_below(1 << bits).filter(|&q| q > bound)),
        ModulusRule::Paper => (bound.checked_add(1)?..limit).find(|&n| is_prime(n)),
    }
}

fn largest_below(n: u64) -> Option<u64> {
    (2..n).rev().find(|&candidate| is_prime(candidate))
}

fn mul_mod(a: u64, b: u64, n: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(n)) as u64
}

fn pow_mod(mut base: u64, mut exponent: u64, n: u64) -> u64 {
    let mut power = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = mul_mod(power, base, n);
        }
        base = mul_mod(base, base, n);
        exponent >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_primality_test_agrees_with_trial_division() {
        for n in 0..20_000u64 {
            let trial = n >= 2 && (2..).take_while(|k| k * k <= n).all(|k| n % k != 0);
            assert_eq!(is_prime(n), trial, "{n}");
        }
    }

    #[test]
    fn strong_pseudoprimes_and_extreme_numbers_are_classified_correctly() {
        // The smallest strong pseudoprimes to the first k prime bases, k = 1..9 (Jaeschke; Jiang
        // and Deng), and two Carmichael numbers. One of these has no small factor: 211·421·631.
        for n in [
            2047u64,
            1373653,
            25326001,
            3215031751,
            2152302898747,
            3474749660383,
            341550071728321,
            3825123056546413051,
            561,
            56052361,
            u64::MAX,
        ] {
            assert!(!is_prime(n), "{n}");
        }
        for n in [18446744073709551557u64, (1 << 61) - 1, 4611686018427387847, 4294967291] {
            assert!(is_prime(n), "{n}");
        }
    }

    #[test]
    fn both_rules_choose_the_specified_q() {
        assert_eq!(choose(800, ModulusRule::Paper), Some(809));
        assert_eq!(choose(756, ModulusRule::Paper), Some(757));
        assert_eq!(choose(110_000, ModulusRule::Deployment), Some(131_071));
        // 1021 is the largest prime below 2^10, so the bound 1021 needs another bit.
        assert_eq!(choose(1020, ModulusRule::Deployment), Some(1021));
        assert_eq!(choose(1021, ModulusRule::Deployment), Some(2039));
        assert_eq!(choose(1, ModulusRule::Deployment), Some(3));
        assert_eq!(choose(1 << 62, ModulusRule::Deployment), None);
        assert_eq!(choose(1 << 62, ModulusRule::Paper), None);
        assert_eq!(choose(u128::MAX, ModulusRule::Paper), None);
    }
}
