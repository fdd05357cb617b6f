//! The SVG of pictures, and the escaping of text.

use proptest::prelude::*;
use tenon_draw::{Anchor, Axis, Color, Picture, Shape, Side, ticks};

#[test]
fn shapes_are_elements_in_the_order_they_were_added() {
    let mut picture = Picture::new(100.0, 50.4).title("a & b");
    picture.add(
        Shape::rect(1.0, 2.005, 30.0, -4.0)
            .rounded(2.0)
            .fill(Color::categorical(0)),
    );
    picture.add(Shape::circle(5.0, 6.0, 7.0).opacity(0.5).title("\"it's\""));
    picture.add(Shape::line((0.0, 0.0), (10.0, 10.0)).dashed().arrow());
    picture.add(Shape::polygon([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]));
    picture.add(
        Shape::text(3.0, 4.0, "x < y\u{1}")
            .size(9.0)
            .bold()
            .rotated()
            .anchor(Anchor::End),
    );
    assert_eq!(
        picture.to_string(),
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="100" height="51" viewBox="0 0 100 51" font-family="sans-serif">
<title>a &amp; b</title>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8Z" fill="#222222"/></marker></defs>
<rect x="0" y="0" width="100" height="51" fill="#ffffff"/>
<rect x="1" y="2.01" width="30" height="0" rx="2" fill="#56b4e9"/>
<circle cx="5" cy="6" r="7" fill="#bbbbbb" opacity="0.5"><title>&quot;it&#39;s&quot;</title></circle>
<path d="M0 0L10 10" marker-end="url(#arrow)" fill="none" stroke="#222222" stroke-width="1" stroke-dasharray="4 3"/>
<path d="M0 0L1 0L0 1Z" fill="#bbbbbb"/>
<text x="3" y="4" font-size="9" text-anchor="end" font-weight="bold" transform="rotate(-90 3 4)" fill="#222222">x &lt; y�</text>
</svg>
"##
    );
}

#[test]
fn ticks_are_round() {
    assert_eq!(ticks(0.0, 10.0, 5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(ticks(0.3, 1.1, 4), [0.4, 0.6, 0.8, 1.0]);
    assert_eq!(ticks(-7.0, 12.0, 4), [-5.0, 0.0, 5.0, 10.0]);
    assert_eq!(ticks(0.0, 1e6, 2), [0.0, 5e5, 1e6]);
    for (low, high) in [
        (1.0, 1.0),
        (2.0, 1.0),
        (f64::NAN, 1.0),
        (0.0, f64::INFINITY),
    ] {
        assert_eq!(ticks(low, high, 5), [0.0; 0], "{low} to {high}");
    }
}

#[test]
fn an_axis_maps_values_to_pixels() {
    let axis = Axis::new(Side::Left, 0.0..=8.0, 90.0..=10.0, 20.0).label("bytes");
    assert_eq!(
        (axis.at(0.0), axis.at(8.0), axis.at(4.0)),
        (90.0, 10.0, 50.0)
    );
    let text: String = axis.shapes().iter().map(ToString::to_string).collect();
    // 80 pixels hold two tick labels, 5 apart: 0 and 5; 8 is not round.
    assert!(
        text.contains(">0</text>") && text.contains(">5</text>"),
        "{text}"
    );
    assert!(
        text.contains("M20 90L20 10") && text.contains(">bytes</text>"),
        "{text}"
    );
    let point = Axis::new(Side::Bottom, 3.0..=3.0, 0.0..=10.0, 0.0);
    assert_eq!(point.at(3.0), 0.0);
}

proptest! {
    #[test]
    fn text_never_becomes_markup(text in ".{0,40}") {
        let mut picture = Picture::new(10.0, 10.0).title(text.clone());
        picture.add(Shape::text(0.0, 0.0, text.clone()).title(text.clone()));
        let svg = picture.to_string();
        let lines = svg.matches('<').count();
        let mut plain = Picture::new(10.0, 10.0).title("x");
        plain.add(Shape::text(0.0, 0.0, "x").title("x"));
        prop_assert_eq!(lines, plain.to_string().matches('<').count());
        let stays = |c: char| matches!(c, '\t' | '\n') || (c >= ' ' && !('\u{7f}'..='\u{9f}').contains(&c));
        prop_assert!(svg.chars().all(stays));
    }

    #[test]
    fn ticks_are_in_range_and_few(low in -1e9f64..1e9, span in 1e-3f64..1e9, most in 1usize..20) {
        let list = ticks(low, low + span, most);
        prop_assert!(list.len() <= most + 1);
        let slack = span * 1e-6 + 1e-9;
        prop_assert!(list.iter().all(|&t| t >= low - slack && t <= low + span + slack));
        prop_assert!(list.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn any_coordinate_is_written_as_a_finite_number(x in proptest::num::f64::ANY) {
        let svg = Shape::rect(x, x, x, x).to_string();
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
