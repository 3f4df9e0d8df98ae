"""What is proven about policies without knowing the truth: the learner's interface and the certificate record."""
