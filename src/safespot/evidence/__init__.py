"""Evidence from play alone, without the truth: interface, confidence sequences, meter, alarm, certificate."""
