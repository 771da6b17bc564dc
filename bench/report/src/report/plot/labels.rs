// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Where do labels stand so that none covers another?

/// Moves places apart until neighbours are at least `gap` apart and all lie between `top` and `bottom`, each as near to
/// where it wanted to be as the others allow. The order of the places is kept.
pub(crate) fn spread_out(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    let mut places = wanted.to_vec();
    let mut edge = top;
    for &i in &order {
        places[i] = places[i].max(edge);
        edge = places[i] + gap;
    }
    let mut edge = bottom;
    for &i in order.iter().rev() {
        places[i] = places[i].min(edge);
        edge = places[i] - gap;
    }
    places
}

/// Which of the labels, centred at these places and so wide, can be written without touching another; earlier ones and
/// the last one are preferred.
pub(crate) fn that_fit(centres: &[f64], widths: &[f64], gap: f64) -> Vec<bool> {
    let touches =
        |a: usize, b: usize| (centres[a] - centres[b]).abs() < (widths[a] + widths[b]) / 2.0 + gap;
    let mut kept: Vec<usize> = Vec::new();
    let last = centres.len().saturating_sub(1);
    for i in (0..centres.len()).take(1).chain(centres.len().checked_sub(1)).chain(1..last) {
        if !kept.iter().any(|j| touches(i, *j)) {
            kept.push(i);
        }
    }
    (0..centres.len()).map(|i| kept.contains(&i)).collect()
}

/// About how wide a text is, in pixels; generous, since the reader's font is not known.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.58
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_move_apart_and_stay_inside() {
        let wanted = [50.0, 51.0, 49.0, 99.0, 0.0];
        let places = spread_out(&wanted, 12.0, 0.0, 100.0);
        let mut sorted = places.clone();
        sorted.sort_by(f64::total_cmp);
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 11.999), "{places:?}");
        assert!(sorted[0] >= 0.0 && sorted[4] <= 100.0, "{places:?}");
        assert!(places[2] < places[0] && places[0] < places[1], "the order is kept: {places:?}");
    }

    #[test]
    fn labels_that_would_touch_are_left_out() {
        assert_eq!(that_fit(&[0.0, 5.0, 40.0, 80.0], &[20.0; 4], 2.0), [true, false, true, true]);
        assert_eq!(that_fit(&[0.0, 60.0, 70.0], &[20.0; 3], 2.0), [true, false, true]);
        assert_eq!(that_fit(&[1.0], &[20.0], 2.0), [true]);
        assert!(that_fit(&[], &[], 2.0).is_empty());
    }
}
