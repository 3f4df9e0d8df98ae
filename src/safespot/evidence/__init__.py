"""What play itself proves, without knowing the truth: interface, confidence sequences, meter, alarm, certificate."""
